"""Cost of `compose` without counting and hashing contents, and its growth."""

import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from time import perf_counter
from typing import Any

from apportion.core.compose import compose
from apportion.core.digests import text_digest
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.text.tokens import TokenCounter
from apportion.engine.counters import exact_counter
from apportion.engine.models import builtin_models
from apportion.engine.policies import load_catalogue
from benchmarks.corpus import ENGINE, lanes_candidates, pieces, request
from benchmarks.measure import best_s, micro, seconds_in_turn, spread, table
from benchmarks.tools.data import read_tools

LANES: Any = load_catalogue(None).resolve("lanes", 0)
_ROUNDS, _TOTAL_TOKENS, _TOOLS_TOKENS = 15, 60_000, 5_000


def main() -> None:
    """Measure lanes with 20, 300, 1,000 and 10,000 candidates of about 400 tokens."""
    rows = []
    for count, bound in ((20, "≤ 120 µs"), (300, "≤ 1 ms")):
        asked = request(candidates=lanes_candidates(count))
        own_s, whole_s = _own_and_whole(asked)
        rows += [
            (
                f"{count} candidates, besides hashing contents, counts known",
                f"{micro(_known_s(asked))} ({bound})",
            ),
            (f"{count} candidates, besides hashing, right after counting", micro(own_s)),
            (f"{count} candidates, in all, counted exactly from cold", micro(whole_s)),
        ]
    table("compose, strategy lanes, decision record included (in all: ≤ 12 ms for 300)", *rows)
    for model in ("gpt-5.6-sol", "claude-opus-4-8"):
        low, middle, high = spread(_request_ratios(model))
        title = f"request of 40 tools, 300 messages and 300 candidates, {model}"
        table(title, ("in times of its parts alone (goal: ≤ 1.3)", f"{middle:.2f} ({low:.2f}-{high:.2f})"))
    both = [request(candidates=lanes_candidates(count)) for count in (1_000, 10_000)]
    memory = Memory()
    small_s, large_s = best_s(
        *(lambda one=one: compose(one, EMPTY, _uncached(), ENGINE, memory) for one in both), rounds=5
    )
    n_log_n = 10_000 * 13.29 / (1_000 * 9.97)
    table(
        "growth",
        ("10,000 candidates against 1,000 (n log n: 13.3)", f"{large_s / small_s:.1f} of {n_log_n:.1f}"),
    )


def _request_ratios(model: str) -> list[float]:
    """Return the CPU time of a whole request, divided by that of its parts alone, in each round.

    Each part has the room that it has in the whole. All texts are new in each round and for each run.
    """
    engine = Engine(ENGINE.version, ENGINE.counters, models=builtin_models())
    tables = tomllib.loads((resources.files("apportion.engine.policies") / "request.toml").read_text("utf-8"))
    tables["tools"]["max_tokens"] = _TOOLS_TOKENS
    common: dict[str, Any] = {"version": "1", "counter": "model"}
    whole = parse_policy(tables)
    chat_table = {"system_tokens": 0, "messages_tokens": _TOTAL_TOKENS, "response_tokens": 0}
    material = {name: value for name, value in tables["material"].items() if name != "share"}
    own = {"whole_system_prompt": True, "repair": True}
    chat: dict[str, Any] = {
        **tables["history"],
        "conversation": {**chat_table, **own},
        "budget_tokens": _TOTAL_TOKENS,
    }
    parts = {
        "tools": whole,
        "conversation": parse_policy({**common, "name": "chat", "strategy": "conversation", **chat}),
        "candidates": parse_policy({**common, "name": "material", "strategy": "lanes", **material}),
    }

    def run(name: str, tokens: int) -> Callable[[dict[str, Any]], object]:
        def compose_part(fields: dict[str, Any]) -> object:
            asked = request(model=model, budget_tokens=tokens, **fields)
            return compose(asked, EMPTY, parts.get(name, whole), engine, Memory())

        return compose_part

    first: Any = run("", _TOTAL_TOKENS)(_whole_request(0))
    rooms = {part.name: part.room for part in first.decision.parts}
    rounds = []
    for number in range(1, _ROUNDS + 2):
        alone = _whole_request(-number)
        chats = [
            {"conversation": alone["conversation"]},
            {"conversation": {"messages": [], "new_message": "a"}},
        ]
        given = {"tools": alone["tools"], "response_tokens": 0, "query": alone["query"], **chats[1]}
        candidates = {"candidates": alone["candidates"], "query": alone["query"]}
        rounds.append([_whole_request(number), given, chats[0], candidates])
    limits = {"": _TOTAL_TOKENS, "tools": 2 * _TOOLS_TOKENS}
    limits |= {"conversation": rooms["system"] + rooms["history"], "candidates": rooms["material"]}
    took_s = seconds_in_turn([run(*limit) for limit in limits.items()], rounds)
    return [one / sum(others) for one, *others in zip(*took_s, strict=True)]


def _whole_request(seed: int) -> dict[str, Any]:
    """Return the fields of a request with texts that other seeds do not have."""
    texts = list(pieces(301, 600, seed))
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]
    tools = read_tools()[:40]
    for tool, text in zip(tools, texts, strict=False):
        tool["function"]["description"] += text[:40]
    candidates = lanes_candidates(300, seed)
    for candidate in candidates:
        candidate["lane"] = "retrieved"
    return {
        "tools": tools,
        "response_tokens": 1_000,
        "conversation": {"system_prompt": texts[0], "messages": messages[:-1], "new_message": texts[-1]},
        "candidates": candidates,
        "query": "Open an issue about the parser, and list the branches of its repository",
    }


def _uncached() -> Any:
    return LANES.model_copy(update={"cache": LANES.cache.model_copy(update={"max_entries": 0})})


class _Known:
    """A counter that remembers all counts."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.digest = counter.name, counter.digest
        self._counter = counter
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self._known[text] = self._counter.count(text)
        return tokens

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return list(map(self.count, texts))


def _known_s(asked: ContextRequest) -> float:
    """Return the time of composing with known counts, minus the hashing of contents."""
    known, policy = _Known(exact_counter("o200k_base")), _uncached()
    engine = Engine(ENGINE.version, {**ENGINE.counters, "o200k_base": known})
    text = compose(asked, EMPTY, policy, engine).composed.text or ""
    contents = [one.content or "" for one in asked.candidates or ()]
    composing_s, hashing_s = best_s(
        lambda: compose(asked, EMPTY, policy, engine),
        lambda: [text_digest(content) for content in (*contents, text)],
        rounds=60,
    )
    return composing_s - hashing_s


class _Stopwatch:
    """A counter that measures its own time."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.digest = counter.name, counter.digest
        self.seconds = 0.0
        self._counter = counter

    def count(self, text: str) -> int:
        begun_s = perf_counter()
        tokens = self._counter.count(text)
        self.seconds += perf_counter() - begun_s
        return tokens

    def count_many(self, texts: Sequence[str]) -> list[int]:
        begun_s = perf_counter()
        tokens = self._counter.count_many(texts)
        self.seconds += perf_counter() - begun_s
        return tokens


def _own_and_whole(asked: ContextRequest) -> tuple[float, float]:
    """Return the time without counting and hashing, and the whole time, both with empty caches."""
    watch, policy = _Stopwatch(exact_counter("o200k_base")), _uncached()
    engine = Engine(ENGINE.version, {**ENGINE.counters, "o200k_base": watch})
    text = compose(asked, EMPTY, policy, engine).composed.text or ""
    contents = [one.content or "" for one in asked.candidates or ()]
    own_s = whole_s = float("inf")
    for _ in range(40):
        watch.seconds = 0.0
        [composing_s] = best_s(lambda: compose(asked, EMPTY, policy, engine), rounds=1)
        [hashing_s] = best_s(lambda: [text_digest(content) for content in (*contents, text)], rounds=1)
        own_s = min(own_s, composing_s - watch.seconds - hashing_s)
        whole_s = min(whole_s, composing_s)
    return own_s, whole_s


if __name__ == "__main__":
    main()
