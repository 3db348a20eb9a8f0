"""Arbitrary events: each is answered, stored, or refused with one code and its place.

The good events are the examples of the schemas. Defects are at any place, and may be invalid JSON.
"""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.composing import ENGINE
from support.mutations import Literal, mutated

from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.errors import ErrorCode, EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.wire.codec import decode, encode
from apportion.engine.policies import builtin_policies

EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples"


def examples(kind: str) -> list[Any]:
    return [json.loads(file.read_bytes()) for file in sorted(EXAMPLES.glob(f"context-{kind}/*.json"))]


POLICIES = [parse_policy({key: given[key] for key in given if key != "type"}) for given in examples("policy")]
COMPOSERS = [
    Composer(ENGINE, Catalogue([*builtin_policies(), *POLICIES]), each.name, Memory())
    for each in builtin_policies()
]
EVENTS = [*examples("request"), *examples("artifact"), *examples("retraction")]
PRIVATE = "SECRET"
NUMBERS = (
    "0 -0 -0.0 1 -1 0.5 5e-324 1e308 1e400 NaN -Infinity 9007199254740992 18446744073709551616 01 1. .5 +1"
)
LITERALS = [
    *NUMBERS.split(),
    *("1" + "0" * 400, "1" + "0" * 5_000, "null", "true", "false"),
    *("[]", "{}", "[[]]", '{"":{}}', "[" * 40 + "]" * 40, "[" * 5_000 + "]" * 5_000),
    *('{"a":' * 40 + "1" + "}" * 40, f'{{"x":"{PRIVATE}"}}'),
    *('""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\ud800"', '"' + "x" * 5_000 + '"'),
    *(f'"{PRIVATE}"', f'"{PRIVATE}, got {PRIVATE}"', f'"{PRIVATE} - at `$.{PRIVATE}`"'),
    *(f'"datetime {PRIVATE}"', f'"`{PRIVATE}`"'),
    *(f'"/{PRIVATE}"', f'"../{PRIVATE}"', f'"{PRIVATE}/**b"', f'"{PRIVATE}[a"'),
    *('"2026-01-01T00:00:00"', '"2026-02-30T00:00:00Z"', '"2026-01-01T24:00:00Z"', '"2026-01-01"'),
    *('"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59.9999999-23:59"', '"1970-01-01T00:00:00Z"'),
    *("", "nul", "'x'", '{"x"}', '{"x":1,}', "[1,]", "1 2", '"', "]"),
]
NAMES = [
    "type",
    "id",
    "candidates",
    "layers",
    "messages",
    "unknown",
    "",
    "a`b",
    "x - at `$.y`",
    "\0",
    "n" * 2_000,
]


def written(document: Any) -> str:
    match document:
        case Literal(text):
            return text
        case dict():
            return (
                "{" + ",".join(f"{json.dumps(key)}:{written(part)}" for key, part in document.items()) + "}"
            )
        case list():
            return "[" + ",".join(map(written, document)) + "]"
        case _:
            return json.dumps(document)


def is_place(pointer: str, document: Any) -> bool:
    """Return whether a pointer, without its `$`, names a part of the document, or an absent field.

    An index into an object counts its members. Refusals use it for members with private names.
    """
    if not pointer:
        return True
    if isinstance(document, dict) and pointer[0] == ".":
        rests = {key: pointer.removeprefix(f".{key}") for key in document if pointer.startswith(f".{key}")}
        inside = any(
            rest[:1] in ("", ".", "[") and is_place(rest, document[key]) for key, rest in rests.items()
        )
        return inside or not {".", "["} & set(pointer[1:])
    index, _, rest = pointer[1:].partition("]")
    parts = list(document.values()) if isinstance(document, dict) else document
    return isinstance(parts, list) and int(index) < len(parts) and is_place(rest, parts[int(index)])


def refusal(value: bytes, composer: Composer) -> EventError | None:
    """Return the refusal of an event, if any; every other exception is a bug."""
    try:
        _, outcome = composer.handle(decode(value, Bounds()), EMPTY)
    except EventError as error:
        return error
    if outcome is not None:
        assert outcome.composed.tokens.used <= outcome.composed.tokens.limit
        assert encode(outcome.composed)
        assert encode(outcome.decision)
    return None


@settings(max_examples=400, deadline=None)
@given(mutated(EVENTS, LITERALS, NAMES).map(written), st.sampled_from(COMPOSERS))
def test_an_event_is_taken_or_refused_with_a_code_and_its_place(text: str, composer: Composer) -> None:
    error = refusal(text.encode("utf-8", "surrogatepass"), composer)
    if error is None:
        return
    assert isinstance(error.code, ErrorCode)
    assert PRIVATE not in str(error)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    assert error.pointer.endswith("…") or is_place(error.pointer.removeprefix("$"), document), error


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(EVENTS), st.data())
def test_bytes_are_an_event_or_refused(noise: bytes, event: Any, data: st.DataObject) -> None:
    value = json.dumps(event).encode()
    start = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(start, min(len(value), start + 20)))
    for spoiled in (noise, value[:start] + noise + value[end:], value[:start], value[:start] + value[end:]):
        error = refusal(spoiled, COMPOSERS[0])
        assert error is None or isinstance(error.code, ErrorCode)
