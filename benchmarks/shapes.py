"""Requests of any shape within the default bounds, made from a few parameters.

A parameter can have another meaning in each strategy.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, json

from benchmarks import hostile
from benchmarks.corpus import pieces
from benchmarks.trial import BOUNDS, EVENT_BYTES, PLENTY_TOKENS, Case, Total, event

UNITS: Mapping[str, str] = {
    "words": "word ",
    "endless word": "a",
    "slashes": "/a",
    "spaces": " ",
    "newlines": "\n",
    "paragraphs": "ab\n\n",
    "blank lines": "\n \n",
    "cjk": "語",
    "emoji": "👩‍👩‍👧",
    "marks": "e\u0301",
    "digits": "7",
    "punctuation": ".,;",
    "quotes": '"',
    "one sign": "-",
    "rulers": "-" * 191 + "=",
    "tabs": "\t",
    "tabs in lines": "\n" + "\t" * 99,
    "hunks": "@@ -1 +1 @@\n-a\n+b\n",
    "edges": "a -> b, c\n",
    "python (a*)": "(a*)",
    "python /*": "/*\n\n\n",
    "python def": "def f(a):\n  '''a'''\n  a\n",
    "python lambda": "lambda a:(",
    "python [": "[",
    "python if": "if a:\n",
    "javascript {": "{",
    "javascript =>": "a=>(",
    "javascript `${": "`${",
    "javascript <a>": "<a>",
    "typescript <": "a<",
    "typescript class": "class A{f(){",
    "go func": "func f(){",
    "go (": "(*",
    "java <": "A<",
    "java class": "class A{void f(){",
    "rust <": "a::<",
    "rust fn": "fn f(){",
    "rust |": "|a|(",
    "c (": "(a)*",
    "c #if": "#if a\n",
    "c {": "int f(){",
}
"""The repeated content of a text. Code is named after its declared language."""
OF_SOURCE = "source"

PATTERNS: Mapping[str, str] = {
    "ends": "**/*{}",
    "stars": "*a" * 42 + "{}",
    "everywhere": "**/a/" * 40 + "{}",
    "components": "a/" * 60 + "?{}",
    "classes": "[!b{}]*/" * 20 + "*",
}
PATHS: Mapping[str, str] = {
    "short": "a",
    "deep": "a/" * 30 + "a",
    "deepest": "a/" * 2_000 + "a",
    "long": "a" * 4_000,
}


class Shape(Struct, frozen=True):
    """The parameters of one request. A strategy ignores parameters that it does not use."""

    strategy: str
    counter: str
    number: int
    text: str
    total: Total
    distinct: bool
    groups: int
    estimated: bool
    protected: str
    shrink: str
    pattern: str
    patterns: int
    path: str
    variant: int


def case(shape: Shape) -> Case:
    """Return the request of a shape, as large as its number and the bounds let it be."""
    policy, fields = _MAKERS[shape.strategy](shape)
    return Case(json.encode(shape).decode(), policy, fields, shape.total)


def _scaled(shape: Shape, make: Callable[[int, int], hostile.Fields]) -> hostile.Fields:
    """Return the fields made for a number of items and the characters of each that fill an event.

    Texts are made shorter until the event keeps its bound, and where that is not enough, items go.
    """
    most = EVENT_BYTES
    number, characters = shape.number, most // shape.number
    while (size := len(event(fields := make(number, characters)))) > most:
        if characters > 1:
            excess = -((most - size) // (number * _bytes_of_character(shape)))
            characters = max(1, characters - excess)
        else:
            number = min(number - 1, number * most // size)
    return fields


def _bytes_of_character(shape: Shape) -> int:
    unit = UNITS.get(shape.text, "a")
    return -(-len(json.encode(unit)) // len(unit))


def _text(shape: Shape, place: int, characters: int) -> str:
    if shape.text == OF_SOURCE:
        [text] = pieces(1, characters, seed=place if shape.distinct else 0)
        return text
    unit = UNITS[shape.text]
    before = f"{place} " if shape.distinct else ""
    return (before + unit * (characters // len(unit) + 1))[: max(characters, len(before))]


def _excluded(shape: Shape) -> list[hostile.Fields]:
    if not shape.pattern:
        return []
    pattern = PATTERNS[shape.pattern]
    values = (pattern.replace("{}", f"{place}") for place in range(shape.patterns))
    return [{"match": {"type": "pattern", "value": value}} for value in values]


def _candidate(shape: Shape, place: int) -> hostile.Fields:
    """Return what candidates of all strategies have."""
    path = {"path": f"{PATHS[shape.path]}{place}"} if shape.pattern else {}
    return path | ({"token_estimate": 1} if shape.estimated else {})


def _lanes(shape: Shape) -> tuple[hostile.Fields, hostile.Fields]:
    policy = hostile.lanes_policy(shape.counter)
    match shape.variant:
        case 1:
            del policy["lanes"]
            policy["budget_tokens"] = 8_000
        case 2:
            for lane in policy["lanes"].values():
                lane["min_tokens"] = PLENTY_TOKENS // len(hostile.LANES)
        case 3:
            policy["shrink"] = {"floor_tokens": 1}
    lanes = hostile.LANES[: shape.groups]
    held = {"none": (), "some": lanes[:1], "all": lanes}[shape.protected]
    pinned = [{"match": {"type": "lane", "value": lane}} for lane in held]
    language = shape.text.partition(" ")[0]
    own = ({"shrink": shape.shrink} if shape.shrink else {}) | {"language": language}

    def make(number: int, characters: int) -> hostile.Fields:
        offered = [
            hostile.artifact(n, _text(shape, n, characters), "symbol_context", lanes[n % len(lanes)])
            | _candidate(shape, n)
            | own
            for n in range(number)
        ]
        return {
            "candidates": offered,
            "constraints": {"pinned": pinned, "must_exclude": _excluded(shape)},
        }

    return policy, _scaled(shape, make)


def _categories(shape: Shape) -> tuple[hostile.Fields, hostile.Fields]:
    policy = hostile.categories_policy(shape.counter, ("reserve", "any")[shape.variant % 2])

    def make(number: int, characters: int) -> hostile.Fields:
        offered = [
            hostile.member(n, _text(shape, n, characters)) | _candidate(shape, n) for n in range(number)
        ]
        return {"candidates": offered, "constraints": {"must_exclude": _excluded(shape)}}

    return policy, _scaled(shape, make)


def _tiers(shape: Shape) -> tuple[hostile.Fields, hostile.Fields]:
    demotion = ("lowest_first", "round_robin")[shape.variant % 2]
    policy = {
        "strategy": "tiers",
        "counter": shape.counter,
        "budget_tokens": PLENTY_TOKENS,
        "tiers": {"demotion": demotion, "summary_characters": (120, 100_000)[shape.variant // 2]},
    }
    kinds = {
        "none": ("directive", "preference", "procedure"),
        "some": ("constraint", "directive", "procedure"),
        "all": ("constraint",),
    }[shape.protected]

    def make(number: int, characters: int) -> hostile.Fields:
        offered = [
            {
                "id": f"{n}",
                "content": _text(shape, n, characters),
                "kind": kinds[n % len(kinds)],
                "activation": 1 - n % (10 * shape.groups) / 100,
            }
            | _candidate(shape, n)
            for n in range(number)
        ]
        return {"candidates": offered, "constraints": {"must_exclude": _excluded(shape)}}

    return policy, _scaled(shape, make)


def _layers(shape: Shape) -> tuple[hostile.Fields, hostile.Fields]:
    names = [f"layer{n}" for n in range(shape.groups)]
    shares = {name: {"priority": n, "share_percent": 100 // len(names)} for n, name in enumerate(names)}
    policy = {
        "strategy": "layers",
        "counter": shape.counter,
        "budget_tokens": PLENTY_TOKENS,
        "layers": shares,
    }

    def layer(entries: list[str]) -> Any:
        if shape.variant == 0:
            return "\n".join(entries)
        each = {1: len(entries), 2: 1, 3: max(1, math.isqrt(len(entries)))}[shape.variant]
        sections = [
            {
                "title": f"t{start}",
                "entries": entries[start : start + each],
                "preserve": shape.protected == "all" or (shape.protected == "some" and start % 2 == 0),
            }
            for start in range(0, len(entries), each or 1)
        ]
        return {"sections": sections, "preamble": "before " * 100 if shape.estimated else ""}

    def make(number: int, characters: int) -> hostile.Fields:
        entries = [_text(shape, n, characters) for n in range(number)]
        if shape.variant:
            entries = [entry.replace("\n", " ") for entry in entries]
        return {"layers": {name: layer(entries[n :: len(names)]) for n, name in enumerate(names)}}

    return policy, _scaled(shape, make)


def _conversation(shape: Shape) -> tuple[hostile.Fields, hostile.Fields]:
    policy = {
        "strategy": "conversation",
        "counter": shape.counter,
        "conversation": {"gaps": shape.protected != "none"},
    }
    deep: Any = []
    for _ in range(BOUNDS.nesting_max - 6):
        deep = [deep]

    def message(place: int, number: int, characters: int) -> hostile.Fields:
        text = _text(shape, place, characters)
        match shape.variant:
            case 0:
                return {"role": ("user", "assistant")[place % 2], "content": text}
            case 1:
                return _call(place, text) if place % 2 == 0 else _result(place - 1, text)
            case 2:
                return {"role": "user", "content": [{"type": "text", "text": text}], "more": [deep, deep]}
            case _:  # all calls, then all results: groups that share messages
                half = number // 2 or 1
                return _call(place, text) if place < half else _result(place - half, text)

    def make(number: int, characters: int) -> hostile.Fields:
        messages = [message(n, number, characters) for n in range(number)]
        prompt = _text(shape, number, characters) if shape.estimated else ""
        return {"conversation": {"messages": messages, "new_message": "a", "system_prompt": prompt}}

    return policy, _scaled(shape, make)


def _call(place: int, text: str) -> hostile.Fields:
    function = {"name": "f", "arguments": text}
    return {
        "role": "assistant",
        "tool_calls": [{"id": f"{place}", "type": "function", "function": function}],
    }


def _result(call: int, text: str) -> hostile.Fields:
    return {"role": "tool", "tool_call_id": f"{call}", "content": text}


_MAKERS: Mapping[str, Callable[[Shape], tuple[hostile.Fields, hostile.Fields]]] = {
    "lanes": _lanes,
    "categories": _categories,
    "tiers": _tiers,
    "layers": _layers,
    "conversation": _conversation,
}
