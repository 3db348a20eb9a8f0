"""Text and requests for the benchmarks: real source code in pieces of about 400 tokens, always the same."""

import json
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

from apportion import ENGINE_VERSION
from apportion.core.bounds import Bounds
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.wire.codec import decode
from apportion.engine.counters import COUNTERS

ENGINE = Engine(ENGINE_VERSION, COUNTERS)
CHARACTERS = 1_600
"""About 400 tokens of o200k_base."""
_LANES = (
    ("policy", "constraint"),
    ("rules", "rule_doc"),
    ("local", "local_diff"),
    ("structure", "symbol_context"),
    ("retrieved", "semantic_match"),
    ("history", "session_history"),
)


@cache
def source() -> str:
    """Return the standard library's own sources, a few megabytes of them."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def pieces(count: int, characters: int = CHARACTERS, seed: int = 1) -> Iterator[str]:
    """Yield pieces of source code."""
    random, text = Random(seed), source()  # noqa: S311 - the same pieces every run is the point
    for _ in range(count):
        start = random.randrange(len(text) - characters)
        yield text[start : start + characters]


def definitions(count: int) -> Iterator[str]:
    """Yield whole functions and classes of about that size, as platforms send symbols."""
    text = source()
    starts = [found.start() for found in re.finditer(r"^(?:def|class) ", text, re.MULTILINE)]
    whole = (text[start:end] for start, end in pairwise(starts))
    yield from islice((one for one in whole if abs(len(one) - CHARACTERS) < CHARACTERS // 4), count)


def lanes_candidates(count: int, seed: int = 1, characters: int = CHARACTERS) -> list[dict[str, Any]]:
    """Return candidates of the strategy lanes, spread over all lanes."""
    random = Random(seed)  # noqa: S311 - likewise
    return [
        {
            "id": f"candidate-{number}",
            "content": content,
            "lane": _LANES[number % 6][0],
            "kind": _LANES[number % 6][1],
            "recency_bucket": number % 6,
            "relevance": random.randint(0, 1000) / 1000,
            "specificity": random.randint(0, 1000) / 1000,
            "risk_alignment": random.randint(0, 1000) / 1000,
        }
        for number, content in enumerate(pieces(count, characters, seed))
    ]


def request(**fields: Any) -> ContextRequest:
    """Return a decoded request."""
    raw = {
        "type": "context-request",
        "request_id": "r",
        "session_id": "s",
        "requested_at": "2026-03-01T12:00:00Z",
    } | fields
    event = decode(json.dumps(raw).encode(), Bounds(event_max_bytes=1 << 30, candidates_max=1 << 20))
    assert isinstance(event, ContextRequest)
    return event
