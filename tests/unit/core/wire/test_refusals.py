"""Refusals without text of the client: neither in the message nor in the place."""

import json
from typing import Any

import pytest
from support.composing import answer, candidate, lanes_policy, request

from apportion.core.bounds import Bounds
from apportion.core.errors import POINTER_MAX_CHARACTERS, EventError
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import decode

REQUEST = {
    "type": "context-request",
    "request_id": "r",
    "session_id": "s",
    "requested_at": "2026-01-01T00:00:00Z",
}
ARTIFACT = {
    "type": "context-artifact",
    "session_id": "s",
    "published_at": "2026-01-01T00:00:00Z",
    "source": "source",
}
RETRACTION = ARTIFACT | {"type": "context-retraction"}
SENTENCES = (
    "secret, got nothing",
    "secret - at `$.candidates[0].secret`",
    "a datetime of the secret",
    "secret`",
    "`secret` - at `$",
    "secret\n - at `$.secret`",
)


def refused(event: Any, bounds: Bounds | None = None) -> EventError:
    value = event if isinstance(event, bytes) else json.dumps(event).encode()
    with pytest.raises(EventError) as caught:
        decode(value, bounds or Bounds())
    return caught.value


def place(event: Any, bounds: Bounds | None = None) -> tuple[str, str]:
    error = refused(event, bounds)
    return str(error.code), error.pointer


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_value_that_looks_like_an_error_is_no_error(sentence: str) -> None:
    for event, code, pointer in (
        (REQUEST | {"vitals": {"pressure": sentence}}, "invalid_value", "$.vitals.pressure"),
        (REQUEST | {"type": sentence}, "unknown_type", "$.type"),
        (REQUEST | {"tenant": sentence}, "invalid_value", "$.tenant"),
        (REQUEST | {"requested_at": sentence}, "invalid_timestamp", "$.requested_at"),
    ):
        error = refused(event)
        assert (error.code, error.pointer) == (code, pointer)
        assert "secret" not in str(error)


@pytest.mark.parametrize("name", ["a`b", "a - at `$.x`", "a` - at `$.é", "a, got b", "", "\n"])
def test_an_unknown_field_is_named_in_full(name: str) -> None:
    assert place(REQUEST | {name: 1}) == ("unknown_field", f"$.{name}")
    assert place(REQUEST | {"vitals": {name: 1}}) == ("unknown_field", f"$.vitals.{name}")


def test_a_pointer_is_cut_so_that_a_long_name_cannot_fill_a_dead_letter() -> None:
    error = refused(REQUEST | {"x" * 900_000: 1})
    assert len(error.pointer) == POINTER_MAX_CHARACTERS
    assert error.pointer == "$." + "x" * 509 + "…"
    assert len(str(error)) < 2 * POINTER_MAX_CHARACTERS


@pytest.mark.parametrize("kind", [5, None, ["context-request"], {}, True])
def test_a_type_that_is_no_text_is_a_wrong_type(kind: Any) -> None:
    assert place(REQUEST | {"type": kind}) == ("wrong_type", "$.type")


@pytest.mark.parametrize(
    ("layer", "rest"),
    [
        (5, ""),
        ({"sections": [5]}, ".sections[0]"),
        ({"sections": [], "preamble": 5}, ".preamble"),
        ({"sections": [{"title": "x", "entries": ["x", 1]}]}, ".sections[0].entries[1]"),
    ],
)
def test_an_invalid_layer_is_reported_by_position_not_by_name(layer: Any, rest: str) -> None:
    layers = {"project": "text", "notes [...]": layer, "fabric": 6}
    assert place(REQUEST | {"layers": layers}) == ("wrong_type", f"$.layers[1]{rest}")


def test_a_bad_layer_is_placed_as_well_as_can_be_where_no_json_follows() -> None:
    value = json.dumps(REQUEST | {"layers": {"project": 5}})[:-1].encode()
    assert place(value) == ("wrong_type", "$.layers")


@pytest.mark.parametrize("number", ["1e400", "1" + "0" * 5_000])
@pytest.mark.parametrize(
    ("conversation", "pointer"),
    [
        ({"new_message": {"role": "user", "x": {"deep": ["number"]}}}, "$.conversation.new_message"),
        ({"new_message": "x", "messages": [{}, {"x": "number"}]}, "$.conversation.messages[1]"),
    ],
)
def test_a_number_beyond_all_numbers_is_placed_by_its_message(
    conversation: Any, pointer: str, number: str
) -> None:
    value = json.dumps(REQUEST | {"conversation": conversation}).replace('"number"', number)
    assert place(value.encode()) == ("invalid_value", pointer)


LONG, CONTROLS = "x" * 65, ("a\0", "a\nb", "\x1f", "a\x7f", "\x85")
TRAVELLING = [
    *((REQUEST, ("candidates", 1, name)) for name in ("kind", "lane", "category")),
    *((ARTIFACT, ("artifact", name)) for name in ("kind", "lane", "category")),
    *((ARTIFACT | {"artifact": {}}, ("source",)), (RETRACTION, ("source",))),
    *((RETRACTION, (name,)) for name in ("kind", "lane")),
    (REQUEST, ("constraints", "lane_requirements", 1, "lane")),
]
"""Every name given by a client that appears in an output, or is compared with one."""


def having(event: dict[str, Any], path: tuple[str | int, ...], name: str) -> dict[str, Any]:
    """Return an event with this name at a place; every other name is valid."""
    value: Any = name
    for step in reversed(path):
        value = [{"lane": "local", "min_tokens": 1}, value] if step == 1 else {step: value}
        if step == "lane" and path[0] == "constraints":
            value["min_tokens"] = 1
        if step == 1 and path[0] == "candidates":
            value[0] = {"kind": "k", "lane": "l", "category": "c"}
    changed: dict[str, Any] = event | value
    return changed


@pytest.mark.parametrize(("event", "path"), TRAVELLING)
def test_a_name_that_travels_is_short_and_has_no_control_characters(
    event: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    decode(json.dumps(having(event, path, "é" * 64)).encode(), Bounds())
    pointer = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    for name in ("", LONG, *CONTROLS):
        assert place(having(event, path, name)) == ("invalid_value", pointer)


def test_a_layers_name_is_checked_and_reported_by_position() -> None:
    decode(json.dumps(REQUEST | {"layers": {"é" * 64: "text"}}).encode(), Bounds())
    for name in ("", LONG, *CONTROLS):
        error = refused(REQUEST | {"layers": {"project": "text", name: "text"}})
        assert (error.code, error.pointer) == ("invalid_value", "$.layers[1]")


@pytest.mark.parametrize("field", ["language", "shrink", "name"])
def test_names_kept_in_a_row_are_bounded(field: str) -> None:
    decode(json.dumps(ARTIFACT | {"artifact": {field: "x" * 256}}).encode(), Bounds())
    long = ARTIFACT | {"artifact": {field: "x" * 257}}
    assert place(long) == ("too_long", f"$.artifact.{field}")


def test_the_id_of_a_retraction_is_bounded_as_ids_are() -> None:
    decode(json.dumps(RETRACTION | {"id": "x" * 256}).encode(), Bounds())
    assert place(RETRACTION | {"id": "x" * 257}) == ("too_long", "$.id")


@pytest.mark.parametrize("nesting_max", [1, 2, 3])
def test_a_small_bound_of_nesting_refuses_every_message(nesting_max: int) -> None:
    event = REQUEST | {"conversation": {"new_message": "x", "messages": [{"a": [[[[1]]]]}]}}
    code, pointer = place(event, Bounds(nesting_max=nesting_max))
    assert (code, pointer) == ("too_deep", "$")


ONE = json.dumps(REQUEST).encode()
ONE_LINE = "; in JSON lines an event stands on one line, not pretty-printed on several"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\xef\xbb\xbf" + ONE, "begins with a byte order mark (EF BB BF): send UTF-8 without one"),
        (ONE.decode().encode("utf-16"), "is in UTF-16: send UTF-8"),
        (ONE.decode().encode("utf-16-be"), "is in UTF-16: send UTF-8"),
        (ONE.decode().encode("utf-16-le"), "is in UTF-16: send UTF-8"),
        (ONE.decode().encode("utf-32-be"), "is in UTF-32: send UTF-8"),
        (ONE.decode().encode("utf-32"), "is in UTF-32: send UTF-8"),
        (ONE[:-1] + b",}", f"is not JSON: trailing comma in object (near column {len(ONE) + 1})"),
        (b'{"a": "\xc3\xa9", "b": nul}', "is not JSON: invalid character (near column 18)"),
        (b'{"a": 1,\n "b": \'x\'}', "is not JSON: invalid character (near line 2, column 7)"),
        (ONE[:-1] + b', "policy": "caf\xe9"}', f"is not UTF-8 (column {len(ONE) + 16})"),
        (ONE + ONE, f"is not JSON: trailing characters (near column {len(ONE) + 2})"),
        (ONE[:-1], f"is not JSON: it ends too early, or within an escape (near column {len(ONE)})"),
        (ONE[:-1] + b"\n", f"is not JSON: it ends too early, or within an escape (near column {len(ONE)})"),
        (b"{", f"is not JSON: it ends too early, or within an escape (near column 2){ONE_LINE}"),
        (b" }, ", f"is not JSON: invalid character (near column 2){ONE_LINE}"),
    ],
)
def test_invalid_json_is_refused_with_error_and_position(value: bytes, told: str) -> None:
    error = refused(value)
    assert (error.code, error.pointer, error.message) == ("not_json", "$", f"the value {told}")


def test_a_valid_line_of_a_pretty_printed_event_is_explained() -> None:
    for line in (b'  "type": "context-request",\r', b"["):
        error = refused(line)
        assert (error.code, error.pointer) == ("wrong_type", "$")
        assert error.message.endswith(
            "; in JSON lines an event stands on one line, not pretty-printed on several"
        )


MANY = {f"n{number:02}": {"priority": number, "min_tokens": 0, "max_tokens": 9} for number in range(14)}
CATEGORIES = {"one": {"priority": 1, "budget_tokens": 100}, "two": {"priority": 2, "budget_tokens": 100}}
TWELVE = "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10, n11 and 2 more"
KINDS = (
    "own, constraint, rule_doc, local_diff, recent_edit, symbol_context, dependency_graph, test_context, "
    "semantic_match, session_history, violation, learning"
)


@pytest.mark.parametrize(
    ("policy", "wrong", "code", "told"),
    [
        (
            lanes_policy(),
            candidate("a", lane="secret"),
            "unknown_lane",
            "lane; it has policy, rules, local, structure, retrieved, history",
        ),
        (lanes_policy(lanes=MANY), candidate("a"), "unknown_lane", f"lane; it has {TWELVE}"),
        (
            lanes_policy(kinds={"own": {"order": 99}}),
            candidate("a", kind="secret"),
            "unknown_kind",
            f"kind; it has {KINDS}",
        ),
        (
            parse_policy(
                {"name": "test", "version": "1", "strategy": "categories", "categories": CATEGORIES}
            ),
            {"id": "a", "content": "x", "category": "secret", "priority": 1},
            "unknown_category",
            "category; it has one, two",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_the_names_of_the_policy(
    policy: Policy, wrong: dict[str, Any], code: str, told: str
) -> None:
    with pytest.raises(EventError) as caught:
        answer(request([wrong]), policy)
    assert (caught.value.code, caught.value.message) == (code, f"policy test has no such {told}")


def test_a_requirement_for_an_unknown_lane_is_refused_with_the_lanes() -> None:
    required = {"lane_requirements": [{"lane": "secret", "min_tokens": 1}]}
    with pytest.raises(EventError) as caught:
        answer(request([], constraints=required), lanes_policy())
    assert caught.value.message.endswith("; it has policy, rules, local, structure, retrieved, history")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"candidates": [{"relevence": 1}]}, "; did you mean relevance?"),
        ({"budget_token": 1}, "; did you mean budget_tokens?"),
        ({"candidates": [{"embedding": 1}]}, "this field"),
        ({"candidates" * 1_000: 1}, "this field"),
    ],
)
def test_an_unknown_field_is_refused_with_the_name_that_is_like_it(changes: Any, hint: str) -> None:
    with pytest.raises(EventError) as caught:
        decode(json.dumps(REQUEST | changes).encode(), Bounds())
    assert caught.value.code == "unknown_field"
    assert caught.value.message.endswith(hint)


def test_a_bare_candidate_is_refused_with_all_missing_fields() -> None:
    bare = request([{"id": "a", "content": "Rotate the key."}])
    with pytest.raises(EventError) as caught:
        answer(bare, lanes_policy())
    assert (caught.value.code, caught.value.pointer) == ("missing_field", "$.candidates[0].kind")
    assert caught.value.message.endswith("lacks lane, relevance, specificity, risk_alignment, created_at")
