"""Figures of `fit` turn by turn: fill of the window, share held, validity and time of a call.

python -m benchmarks.fitting
python -m benchmarks.fitting --limit 32000 --turns 100 --chat chat.json

Chats are simulated with the sizes of recorded logs (`benchmarks.value.logs`), or read from a JSON file. The
file has a list in OpenAI's shape, or a body in Anthropic's. `fit` is called before each answer.
A chat is one session. Figures begin with the first turn that does not fit whole.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import mean, quantiles
from time import perf_counter
from typing import Annotated, Any

import typer
from msgspec import Struct

from apportion import COUNTERS, FitError, FitOptions, Fitted, LocalSessions, fit
from benchmarks.value.logs import LOG_KINDS, Chat, Message, log_chat

COLUMNS = (
    *("chat", "limit", "turns", "over", "invalid", "fill", "least", "below 0.5"),
    *("held", "share", "p50 ms", "p99 ms", "max ms", "refused"),
)
_BEGUN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_GAP = timedelta(seconds=8)
_COUNTER = COUNTERS["o200k_base"]


class FitTurn(Struct, frozen=True):
    """A call of `fit`: its time, and its result or the code of its error.

    `is_cut` is true if not all messages are sent as given.
    """

    took_s: float
    fitted: Fitted | None = None
    error: str = ""
    is_cut: bool = False


def played(chat: Chat, limit_tokens: int, most: int) -> Iterator[FitTurn]:
    """Yield the turns of a chat from the first that does not fit whole, at most so many."""
    messages: Sequence[Message] = chat["messages"] if isinstance(chat, dict) else chat
    sessions = LocalSessions()
    count, is_full = 0, False
    for end in [index for index, message in enumerate(messages) if message["role"] == "assistant"]:
        given = messages[:end]
        options = FitOptions(request_id=str(end), requested_at=_BEGUN + _GAP * end)
        body: Any = {**chat, "messages": given} if isinstance(chat, dict) else given
        begun_s = perf_counter()
        try:
            fitted = fit(body, limit_tokens, session_id="s", client=sessions, options=options)
        except FitError as error:
            turn = FitTurn(perf_counter() - begun_s, error=str(error.code))
        else:
            took_s = perf_counter() - begun_s
            turn = FitTurn(took_s, fitted, is_cut=list(given) != fitted.messages)
        is_full = is_full or turn.is_cut or bool(turn.error)
        if is_full and count < most:
            count += 1
            yield turn


def is_valid(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the results of each call, and nothing else, directly follow it; in both shapes."""
    expected = Counter[str]()
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        results = Counter(block["tool_use_id"] for block in blocks if block["type"] == "tool_result")
        results.update([message["tool_call_id"]] if message["role"] == "tool" else [])
        if results - expected or (expected and not results):
            return False
        expected -= results
        expected.update(call["id"] for call in message.get("tool_calls") or ())
        expected.update(block["id"] for block in blocks if block["type"] == "tool_use")
    return not expected


def row(name: str, limit_tokens: int, turns: Sequence[FitTurn]) -> list[str]:
    """Return the cells of a table's row; its times leave the first call out."""
    fits = [turn.fitted for turn in turns if turn.fitted]
    fills = [fitted.used_tokens / limit_tokens for fitted in fits] or [0.0]
    held = [_held(before, after) for before, after in pairwise(fits)] or [0.0]
    windows = [fitted.decision.window for fitted in fits[1:]]
    shares = [window.share / 1000 for window in windows if window] or [0.0]
    times_ms = sorted(turn.took_s * 1000 for turn in turns[1:]) or [0.0]
    percentiles = quantiles(times_ms * 2, n=100, method="inclusive")
    refused = Counter(turn.error for turn in turns if turn.error)
    return [
        *(name, f"{limit_tokens:,}", str(len(turns))),
        str(sum(fitted.used_tokens > limit_tokens for fitted in fits)),
        str(sum(not is_valid(fitted.messages) for fitted in fits)),
        *(f"{mean(fills):.3f}", f"{min(fills):.3f}", str(sum(fill < 1 / 2 for fill in fills))),
        *(f"{mean(values):.3f}" for values in (held, shares)),
        *(f"{time_ms:.1f}" for time_ms in (percentiles[49], percentiles[98], times_ms[-1])),
        ", ".join(f"{code}: {number}" for code, number in refused.items()),
    ]


def _held(before: Fitted, after: Fitted) -> float:
    """Return the share of the sent tokens that repeat the beginning of the messages before."""
    sizes = [_COUNTER.count(json.dumps(message)) for message in after.messages]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before.messages, after.messages, strict=False))
    return sum(sizes[: sum(1 for _ in same)]) / sum(sizes)


def main(
    limit: Annotated[list[int] | None, typer.Option(help="A limit in tokens; may be repeated.")] = None,
    turns: Annotated[int, typer.Option(help="The largest number of turns of a chat.")] = 300,
    chat: Annotated[list[Path] | None, typer.Option(help="A chat as JSON; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of simulated chats.")] = 0,
) -> None:
    """Print a row for each chat and limit."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    recorded = [(path.stem, json.loads(path.read_bytes())) for path in chat or ()]
    for name, content in recorded or [(kind, log_chat(kind, seed)) for kind in LOG_KINDS]:
        for limit_tokens in limit or (16_000, 32_000, 64_000, 128_000):
            cells = row(name, limit_tokens, list(played(content, limit_tokens, turns)))
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    typer.run(main)
