"""Requests within the default bounds that once took a worker seconds or minutes, scaled to 1 MiB.

They are possible but not useful. Ordinary requests of that size are added for comparison.
"""

from collections.abc import Callable, Iterator
from itertools import count, islice, product
from random import Random
from string import ascii_letters, digits
from typing import Any

from benchmarks.corpus import lanes_candidates, pieces
from benchmarks.trial import BOUNDS, EVENT_BYTES, PLENTY_TOKENS, Case, Total, event

ORDINARY_GOAL_S = {"chars4": 0.01, "o200k_base": 0.05}
LANES = ("policy", "rules", "local", "structure", "retrieved", "history")
_PATH_CHARACTERS = 4_096
_PARSED_CHARACTERS = 8_192
"""The longest text that is parsed."""
_MANY_LETTERS = 0x20000
"""The first of 42,720 ideographs."""

Fields = dict[str, Any]


def grown(make: Callable[[int], Fields], most: int) -> Fields:
    """Return the fields for the greatest number, up to `most`, that fit into an event."""
    number = most
    while (size := len(event(fields := make(number)))) > EVENT_BYTES:
        number = min(number - 1, number * EVENT_BYTES // size)
    return fields


def lanes_policy(counter: str) -> Fields:
    """Return a policy with lanes that may use the whole total."""
    lanes = {
        name: {"priority": place, "min_tokens": 0, "max_tokens": PLENTY_TOKENS}
        for place, name in enumerate(LANES)
    }
    return {"strategy": "lanes", "counter": counter, "budget_tokens": PLENTY_TOKENS, "lanes": lanes}


def categories_policy(counter: str, overflow: str = "reserve") -> Fields:
    """Return a policy of one category that may use the whole total."""
    return {
        "strategy": "categories",
        "counter": counter,
        "budget_tokens": 2 * PLENTY_TOKENS,
        "categories": {"all": {"priority": 1, "budget_tokens": PLENTY_TOKENS, "may_overflow": True}},
        "reserve": {"overflow": overflow},
    }


def artifact(number: int, content: str, kind: str = "local_diff", lane: str = "local") -> Fields:
    """Return a candidate of strategy lanes."""
    scores = {"recency_bucket": 0, "relevance": 0, "specificity": 0, "risk_alignment": 0}
    return {"id": f"{number}", "content": content, "kind": kind, "lane": lane, **scores}


def member(number: int, content: str) -> Fields:
    """Return a candidate of strategy categories."""
    return {"id": f"{number}", "content": content, "category": "all", "priority": 1}


def cases() -> Iterator[Case]:
    """Yield all cases, the ordinary ones last."""
    yield from _patterns()
    yield from _fitting()
    yield from _shrinking()
    yield from _long_lists()
    yield from _one_sign()
    yield from _tools()
    yield from _ordinary()


def _patterns() -> Iterator[Case]:
    names = ["".join(pair) for pair in product(ascii_letters + digits, repeat=2)]
    wide = "/".join(names)[: _PATH_CHARACTERS - 4].rstrip("/")
    letters = map(chr, count(_MANY_LETTERS))
    distinct = ["/".join(f"[!{letter}]*" for letter in islice(letters, 42)) for _ in range(1_000)]
    yield _matching("1,000 patterns of 42 distinct wildcards, paths of 4 KB", distinct, wide, 150)
    nested = "a/" * (_PATH_CHARACTERS // 2 - 3)
    stars = ["/".join([*["**", "a"] * 50, "b*"])] * 1_000
    yield _matching("1,000 patterns of 50 times **, paths of 4 KB", stars, nested + "b", 180)
    ends = [f"**/*{n:03}" for n in range(990)]
    yield _matching("990 patterns, 7,000 paths", ends, "src/a", 7_000)
    component = ["*a" * 42 + f"*{n:03}" for n in range(1_000)]
    yield _matching("1,000 patterns of 42 stars in one component", component, "a" * 4_000, 200)


def _matching(name: str, patterns: list[str], path: str, paths: int) -> Case:
    excluded = [{"match": {"type": "pattern", "value": pattern}} for pattern in patterns]

    def make(number: int) -> Fields:
        offered = [member(n, "a") | {"path": f"{path}{n:04}"} for n in range(number)]
        return {"candidates": offered, "constraints": {"must_exclude": excluded}}

    return Case(name, categories_policy("chars4"), grown(make, paths))


def _fitting() -> Iterator[Case]:
    def seamless(number: int) -> Fields:
        return {"candidates": [member(n, "/" + "a" * 960) for n in range(number)]}

    name = "categories: 1,000 contents without a seam"
    yield Case(name, categories_policy("o200k_base"), grown(seamless, 1_000))

    def pinned(number: int) -> Fields:
        every = [{"match": {"type": "lane", "value": "local"}}]
        return {"candidates": [artifact(n, f"{n}") for n in range(number)], "constraints": {"pinned": every}}

    for counter in ("chars4", "o200k_base"):
        name = f"lanes: tiny pinned candidates, {counter}"
        yield Case(name, lanes_policy(counter), grown(pinned, BOUNDS.candidates_max), Total.ONE_LESS)

    def tiny(number: int) -> Fields:
        return {"candidates": [artifact(n, "a", lane=LANES[n % len(LANES)]) for n in range(number)]}

    built_in = {"strategy": "lanes", "counter": "o200k_base", "budget_tokens": 8_000}
    yield Case("lanes, built in: one-token candidates", built_in, grown(tiny, BOUNDS.candidates_max))


def _shrinking() -> Iterator[Case]:
    underrated = {"token_estimate": 1}  # only selected candidates are shrunk

    def many(language: str, text: Callable[[int], str], characters: int) -> Callable[[int], Fields]:
        return lambda number: {
            "candidates": [
                artifact(n, text(n)[:characters], "symbol_context", "structure")
                | underrated
                | {"language": language}
                for n in range(number)
            ]
        }

    def drawn(seed: int) -> str:
        random = Random(seed)  # noqa: S311 - the same texts every run is the point
        return "".join(random.choices(("a=\n>", "int a (/*", "`", "/*"), k=_PARSED_CHARACTERS))

    for named, language, text, characters in (
        ("(a*)(a*)…", "python", lambda _: "(a*)" * _PARSED_CHARACTERS, _PARSED_CHARACTERS),
        ("/* and line ends", "python", lambda _: "/*\n\n\n" * _PARSED_CHARACTERS, _PARSED_CHARACTERS),
        ("/*abcdefghijklmnop", "python", lambda _: "/*abcdefghijklmnop " * 999, _PARSED_CHARACTERS),
        ("a=, int a (/*, drawn", "python", drawn, _PARSED_CHARACTERS),
        ("/* and line ends of 1,800", "python", lambda _: "/*\n\n\n" * 360, 1_800),
        ('") of 1,000', "javascript", lambda _: '")' * 500, 1_000),
        ("functions of a line, without errors", "python", lambda n: f"def f{n}(a): return a.b(c, d)", 40),
        ("type A=…", "typescript", lambda _: "type A=" * _PARSED_CHARACTERS, _PARSED_CHARACTERS),
        ("type A=… of 400", "typescript", lambda _: "type A=" * _PARSED_CHARACTERS, 400),
    ):
        made = grown(many(language, text, characters), min(BOUNDS.candidates_max, EVENT_BYTES // characters))
        yield Case(f"lanes: hostile {language} {named}", lanes_policy("chars4"), made, Total.HALF)

    def graph(number: int) -> Fields:
        content = "\n".join(f"n{n * 7919 % number} -> n{n * 104729 % number}" for n in range(number))
        return {"candidates": [artifact(0, content, "dependency_graph", "structure") | underrated]}

    for counter in ("chars4", "o200k_base"):
        yield Case(
            f"lanes: one large graph, {counter}", lanes_policy(counter), grown(graph, 80_000), Total.HALF
        )


def _long_lists() -> Iterator[Case]:
    def sections(number: int) -> Fields:
        each = [{"title": f"t{n}", "entries": ["a b c"]} for n in range(number)]
        return {"layers": {"project": {"sections": each}}}

    shares = {"project": {"priority": 0, "share_percent": 100}}
    policy = {"strategy": "layers", "counter": "o200k_base", "layers": shares}
    for total in (Total.ONE_LESS, Total.HALF):
        yield Case(f"layers: a section an entry, exact, {total}", policy, grown(sections, 40_000), total)

    def nested(number: int) -> Fields:
        deep: Any = []
        for _ in range(BOUNDS.nesting_max - 6):
            deep = [deep]
        messages = [{"role": "user", "content": "a", "extra": deep} for _ in range(number)]
        return {"conversation": {"messages": messages, "new_message": "a"}}

    for total in (Total.OWN, Total.HALF):
        policy = {"strategy": "conversation", "counter": "o200k_base"}
        yield Case(f"conversation: deep messages, {total}", policy, grown(nested, BOUNDS.messages_max), total)


def _one_sign() -> Iterator[Case]:
    """Yield the cost of a single piece of an encoding's pattern, whose parts have no counts."""
    counter = "o200k_base"

    def candidate(number: int) -> Fields:
        return {"candidates": [artifact(0, "-" * number) | {"token_estimate": 1}]}

    def prompt(number: int) -> Fields:
        return {"conversation": {"messages": [], "new_message": "a", "system_prompt": "-" * number}}

    def rulers(number: int) -> Fields:
        return {"candidates": [artifact(0, ("-" * 191 + "=") * number) | {"token_estimate": 1}]}

    def tabs(number: int) -> Fields:
        return {"candidates": [artifact(0, "\t" * number) | {"token_estimate": 1}]}

    for total in (Total.OWN, Total.HALF):
        lanes, conversation = lanes_policy(counter), {"strategy": "conversation", "counter": counter}
        made = grown(rulers, EVENT_BYTES // 192)
        yield Case(f"rulers of 191 signs, 1 MiB: a candidate, {total}", lanes, made, total)
        yield Case(f"tabs, 1 MiB: a candidate, {total}", lanes, grown(tabs, EVENT_BYTES // 2), total)
        yield Case(f"one sign, 1 MiB: a candidate, {total}", lanes, grown(candidate, EVENT_BYTES), total)
        yield Case(
            f"one sign, 1 MiB: a system prompt, {total}", conversation, grown(prompt, EVENT_BYTES), total
        )


def _tools() -> Iterator[Case]:
    counter, chat = "o200k_base", {"messages": [], "new_message": "Open an issue"}
    policy = {
        "strategy": "request",
        "counter": counter,
        "budget_tokens": PLENTY_TOKENS,
        "response_tokens": 0,
        "tools": {"max_tokens": PLENTY_TOKENS},
    }

    def deep(leaf: Any) -> Any:
        for _ in range((BOUNDS.nesting_max - 6) // 2):
            leaf = {"properties": {"a": leaf}}
        return leaf

    def listed(tool: Callable[[int], Fields], most: int = BOUNDS.tools_max, **fields: Any) -> Fields:
        return grown(
            lambda number: {"conversation": chat, "tools": [tool(n) for n in range(number)], **fields}, most
        )

    def named(n: int, **fields: Any) -> Fields:
        return {"name": f"f{n}", "description": "a", **fields}

    wide: Fields = {"properties": {f"issue {n}": {} for n in range(40_000)}}
    all_named = {"allowed_function_names": [f"f{n}" for n in range(60_000)]}
    texts = list(pieces(2_000, 400))
    messages = [{"role": "user", "content": text} for text in texts]
    for name, fields in {
        "tiny": listed(named),
        "of 500 characters": listed(lambda n: named(n, description=texts[n])),
        "of equal names": listed(lambda n: named(0, description=f"{n}")),
        "of deep schemas": listed(lambda n: named(n, input_schema=deep({}))),
        "of many parameters": listed(lambda n: named(n, input_schema=wide if n == 0 else {}), 2),
        "of 30,000 functions in one": grown(
            lambda number: {
                "conversation": chat,
                "tools": [{"functionDeclarations": [named(n) for n in range(number)]}],
            },
            30_000,
        ),
        "of one sign, 1 MiB": grown(
            lambda n: {"conversation": chat, "tools": [named(0, description="-" * n)]}, EVENT_BYTES
        ),
        "of one word, 1 MiB": grown(
            lambda n: {"conversation": chat, "tools": [named(0, description="issue " * n)]}, EVENT_BYTES
        ),
        "with 60,000 named ones": listed(named, 10, tool_choice=all_named),
        "with a long chat": {
            "conversation": {"messages": messages[:1_000], "new_message": "Open an issue"},
            "tools": [named(n, description=text) for n, text in enumerate(texts[1_000:])],
        },
    }.items():
        for total in (Total.ONE_LESS, Total.HALF):
            yield Case(f"request: tools {name}, {total}", policy, fields, total)


def _ordinary() -> Iterator[Case]:
    texts = list(pieces(4_000, 1_600))
    for counter, goal_s in ORDINARY_GOAL_S.items():
        yield Case(
            f"ordinary: lanes, {counter}",
            {"strategy": "lanes", "counter": counter, "budget_tokens": 8_000},
            grown(lambda n: {"candidates": lanes_candidates(n, characters=2_720)}, 400),
            goal_s=goal_s,
        )
        yield Case(
            f"ordinary: conversation, {counter}",
            {"strategy": "conversation", "counter": counter},
            grown(_history(texts), 1_000),
            goal_s=goal_s,
        )


def _history(texts: list[str]) -> Callable[[int], Fields]:
    def make(number: int) -> Fields:
        messages = [{"role": ("user", "assistant")[n % 2], "content": texts[n]} for n in range(number)]
        return {"conversation": {"messages": messages, "new_message": "What now?"}}

    return make
