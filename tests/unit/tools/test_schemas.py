"""The schemas and the types say the same, and the examples are true."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from support.composing import answer
from tools.schemas import EVENTS, POLICY, file_name, request_schemas, schemas
from tools.schemas.files import files

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest, ContextUsage
from apportion.core.strategies import STRATEGIES, parse_policy
from apportion.core.strategy_api.policy import PolicyError
from apportion.core.wire.codec import decode, encode
from apportion.core.wire.repair import without_nulls
from apportion.decisions.analytics.records import UnreadableError, recognised

FOLDER = Path(__file__).parents[3] / "schemas"
EXAMPLES = sorted(FOLDER.glob("examples/*/*.json"))
USAGE = "context-usage"
INCOMING = frozenset({"context-request", "context-artifact", "context-retraction", USAGE})
SCHEMAS = schemas()
VALIDATORS = {
    name: jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for name, schema in SCHEMAS.items()
}
REQUEST_SCHEMAS = request_schemas()
REQUEST_VALIDATORS = {
    strategy: jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for strategy, schema in REQUEST_SCHEMAS.items()
}
ASKED_FOR = frozenset({"missing_field", "unsupported_field"})
BOUNDLESS = Bounds(**dict.fromkeys(Bounds.__struct_fields__, 10**9))
"""The bounds are settings, so no schema says them."""
WRONG: tuple[Any, ...] = (None, True, -1, 0.5, 2**53, "", "\n", "x" * 5_000, [], [None], {}, {"unknown": 1})
"""For each place there are some of these that do not belong there."""
UNKNOWN = "unknown"


def name_of(example: Path) -> str:
    return f"{example.parent.name}/{example.stem}"


def read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def without_type(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "type"}


def is_read(name: str, event: Any) -> bool:
    """Return whether the decoder accepts an incoming event, without its policy."""
    try:
        if name == POLICY:
            parse_policy(without_type(event))
            return bool(event.get("type") == POLICY)
        if name == USAGE:
            return recognised(json.dumps(event).encode()) is ContextUsage
        read_event = decode(json.dumps(event).encode(), BOUNDLESS)
    except (EventError, PolicyError, UnreadableError):
        return False
    return read_event.__struct_config__.tag == name


def with_nulls_absent(event: Any) -> Any:
    """Return an event without nulls for optional fields, which workers take and schemas do not."""
    return json.loads(without_nulls(json.dumps(event).encode()))


def mutations(event: Any) -> Iterator[Any]:
    """Yield copies of an event, each with one value replaced, removed or added."""
    for place in places(event):
        *parents, last = place
        for wrong in WRONG:
            mutated, parent = reach(event, parents)
            parent[last] = wrong
            yield mutated
        if last != UNKNOWN:
            mutated, parent = reach(event, parents)
            del parent[last]
            yield mutated


def places(node: Any) -> Iterator[tuple[Any, ...]]:
    keyed = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
    for key, value in keyed:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *rest) for rest in places(value))
    if isinstance(node, dict):
        yield (UNKNOWN,)


def reach(event: Any, place: list[Any]) -> tuple[Any, Any]:
    mutated = node = copy.deepcopy(event)
    for key in place:
        node = node[key]
    return mutated, node


def test_the_generated_files_match_the_types() -> None:
    made = files(FOLDER)
    stale = [name for name, data in made.items() if not (FOLDER / name).exists() or read(name) != data]
    assert not stale, "run: python -m tools.schemas"


def test_no_made_file_is_left_over() -> None:
    outgoing = EVENTS.keys() - INCOMING
    present = {f"examples/{name_of(file)}.json" for file in EXAMPLES if file.parent.name in outgoing}
    present |= {file.name for file in FOLDER.glob("*.schema.json")}
    assert present == files(FOLDER).keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_valid(name: str) -> None:
    jsonschema_rs.meta.validate(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == file_name(name)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_event_has_an_example(name: str) -> None:
    assert name in {example.parent.name for example in EXAMPLES}


@pytest.mark.parametrize("name", sorted(INCOMING))
def test_every_field_of_incoming_events_is_described(name: str) -> None:
    schema = SCHEMAS[name]
    for part in (schema, *schema["$defs"].values()) if "$defs" in schema else (schema,):
        for field, described in part.get("properties", {}).items():
            assert field == "type" or described["description"], field


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_has_a_schema_of_its_requests(strategy: str) -> None:
    schema = REQUEST_SCHEMAS[strategy]
    jsonschema_rs.meta.validate(schema)
    assert schema["$id"] == f"context-request.{strategy}.v1.schema.json"
    example = json.loads((FOLDER / f"examples/context-request/{strategy}.json").read_bytes())
    for other, validator in REQUEST_VALIDATORS.items():
        is_read = other == strategy or (strategy, other) == ("conversation", "request")  # a chat is a request
        assert validator.is_valid(example) == is_read
        assert jsonschema_rs.Draft7Validator(REQUEST_SCHEMAS[other]).is_valid(example) == is_read


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategys_request_schema_requires_its_fields(strategy: str) -> None:
    """No schema checks names and numbers that depend on a policy, or the content of a message."""
    event = json.loads((FOLDER / f"examples/context-request/{strategy}.json").read_bytes())
    policy = parse_policy(
        without_type(json.loads((FOLDER / f"examples/{POLICY}/{strategy}.json").read_bytes()))
    )
    codes = set()
    for mutation in mutations(event):
        valid = REQUEST_VALIDATORS[strategy].is_valid(with_nulls_absent(mutation))
        try:
            asked = decode(json.dumps(mutation).encode(), BOUNDLESS)
        except EventError:
            assert not valid, mutation
            continue
        assert isinstance(asked, ContextRequest)
        try:
            answer(asked, policy)
        except EventError as error:
            codes.add(str(error.code))
            asks = error.code in ASKED_FOR and not error.pointer.startswith("$.conversation.")
            assert not (asks and valid), mutation
        else:
            assert valid, mutation
    assert "missing_field" in codes


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_example_is_valid(example: Path) -> None:
    event, schema = json.loads(example.read_bytes()), SCHEMAS[example.parent.name]
    VALIDATORS[example.parent.name].validate(event)
    jsonschema_rs.Draft7Validator(schema).validate(event)  # the form that AsyncAPI's tools expect


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_example_is_an_event_of_its_type(example: Path) -> None:
    name, data = example.parent.name, example.read_bytes()
    if name in EVENTS.keys() - INCOMING:
        event = msgspec.json.decode(data, type=EVENTS[name], strict=True)
        assert json.loads(encode(event)) == json.loads(data), "the type knows every field"
    else:
        assert is_read(name, json.loads(data))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_an_example_of_its_policy(strategy: str) -> None:
    policies = (json.loads(example.read_bytes()) for example in FOLDER.glob(f"examples/{POLICY}/*.json"))
    assert strategy in {policy["strategy"] for policy in policies}


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each.parent.name in INCOMING], ids=name_of)
def test_schema_and_decoder_accept_the_same_events(example: Path) -> None:
    name = example.parent.name
    taken = 0
    for event in mutations(json.loads(example.read_bytes())):
        is_taken = is_read(name, event)
        assert VALIDATORS[name].is_valid(with_nulls_absent(event)) == is_taken, event
        taken += is_taken
    assert taken, "some mutations do no harm"


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each.parent.name == POLICY], ids=name_of)
def test_a_policy_that_is_read_passes_its_schema(example: Path) -> None:
    """The other way round does not hold: no schema can say what holds between keys."""
    for event in mutations(json.loads(example.read_bytes())):
        assert VALIDATORS[POLICY].is_valid(event) or not is_read(POLICY, event), event
