"""An example strategy, written from ARCHITECTURE.md: one folder, one registry line, one policy file."""

import ast
import json
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_strategy.rotation import RotationStrategy
from hypothesis import given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, asked, engine_with
from support.commands import ROOT, apportion
from support.composing import ENGINE, NOW, answer, artifact, entry_of, omitted, request, selected
from support.expectations import assert_accounted
from tools.schemas import request_schemas

from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import Fidelity, Margin
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import STRATEGIES, parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.wire.codec import encode
from apportion.engine.policies import load_policy
from apportion.testing import Harness

HERE = Path(__file__).parent
POLICY_FILE = HERE / "rotation.toml"
PINNED = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
SETTINGS = settings(max_examples=60, deadline=None)

ids = st.text("abcé", min_size=1, max_size=3)
contents = st.lists(st.sampled_from(["", " ", "\n", "word ", "é", "👩\u200d👧", "x" * 20]), max_size=8).map(
    "".join
)
limits = st.integers(1, 40)
engines = st.sampled_from([ENGINE, engine_with(Jumpy())])


@st.composite
def pieces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw candidates; an id may come again, and has the same content then."""
    known = draw(st.dictionaries(ids, contents, min_size=1, max_size=8))
    return [
        {"id": name, "content": known[name], "relevance": draw(st.sampled_from([0, 0.5]))}
        for name in draw(st.lists(st.sampled_from(list(known)), max_size=12))
    ]


turns = st.lists(pieces(), min_size=1, max_size=4)


@pytest.fixture(autouse=True, scope="module")
def _registry_line() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STRATEGIES, "rotation", RotationStrategy())
        yield


@pytest.fixture(scope="module")
def policy(_registry_line: None) -> Policy:
    return load_policy(POLICY_FILE)


def changed(**changes: Any) -> Policy:
    return parse_policy(tomllib.loads(POLICY_FILE.read_text()) | changes)


def named(names: str, tokens: int = 5) -> list[dict[str, Any]]:
    return [{"id": name, "content": name * 4 * tokens} for name in names]


def stood(policy: Policy, *turns: str) -> list[str]:
    """Return the selected names in each turn of one session, for candidates of these names."""
    session, standing = EMPTY, []
    for names in turns:
        outcome = answer(request(named(names)), policy, session)
        session = outcome.session
        standing.append("".join(selected(outcome)))
    return standing


def again(session: Session) -> Session:
    return msgspec.json.decode(encode(session), type=Session)


def test_candidates_are_ordered_by_id_and_joined_by_a_blank_line(policy: Policy) -> None:
    outcome = answer(request(named("ba", 1)), policy)
    assert outcome.composed.text == "aaaa\n\nbbbb"
    assert outcome.composed.tokens.used == 3


def test_each_turn_begins_after_the_last_id_and_wraps_around(policy: Policy) -> None:
    assert stood(policy, *["abcde"] * 4) == ["ab", "cd", "ea", "bc"]


def test_a_turn_continues_after_a_last_id_that_is_gone(policy: Policy) -> None:
    assert stood(policy, "abcde", "acde", "acd") == ["ab", "cd", "ac"]


def test_a_turn_without_selected_candidates_is_passed_over(policy: Policy) -> None:
    assert stood(policy, "abc", "", "abc") == ["ab", "", "ca"]


def test_the_turn_survives_the_row_as_bytes(policy: Policy) -> None:
    session, standing = EMPTY, []
    for _ in range(4):
        outcome = answer(request(named("abcdé")), policy, again(session))
        session = outcome.session
        standing.append("".join(selected(outcome)))
    assert standing == ["ab", "cd", "éa", "bc"]


def test_an_oversized_candidate_is_refused_with_its_margin_and_the_rest_tried(policy: Policy) -> None:
    outcome = answer(request([*named("a", 30), *named("b", 20), *named("c", 9)]), policy)
    assert selected(outcome) == ["a", "c"]
    assert omitted(outcome) == {"b": "budget_exceeded"}
    assert entry_of(outcome, "b").margin == Margin(needed=21, left=10)


def test_the_policy_sets_the_number_of_selected_candidates() -> None:
    assert stood(changed(rotation={"most": 3}), "abcde", "abcde") == ["abc", "dea"]
    outcome = answer(request(named("abc")), changed(rotation={"most": 1}))
    assert omitted(outcome) == {"b": "no_room", "c": "no_room"}


def test_the_policys_own_table_is_checked_as_every_other() -> None:
    with pytest.raises(PolicyError, match=r"rotation\.most: .*\nrotation\.turns: unknown key"):
        changed(rotation={"most": 0, "turns": 2})


def test_the_excluded_and_the_empty_are_out_for_their_reasons(policy: Policy) -> None:
    exclusion = {"must_exclude": [{"match": {"type": "id", "value": "a"}}]}
    outcome = answer(request([*named("abc"), {"id": "d", "content": ""}], constraints=exclusion), policy)
    assert selected(outcome) == ["b", "c"]
    assert omitted(outcome) == {"a": "excluded_by_policy", "d": "no_content"}


def test_a_repeated_id_is_selected_once(policy: Policy) -> None:
    outcome = answer(request([*named("a"), *({**one, "relevance": 0.5} for one in named("a"))]), policy)
    assert selected(outcome) == ["a"]
    assert omitted(outcome) == {"a": "duplicate"}


def test_artifacts_of_the_pool_take_their_turns(policy: Policy) -> None:
    composer = Composer(ENGINE, Catalogue([policy]), policy.name, Memory())
    session, _ = composer.handle(artifact(named("b")[0]), EMPTY)
    _, outcome = composer.handle(request(named("ac"), policy="rotation"), session)
    assert outcome is not None
    assert selected(outcome) == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"budget_tokens": 0}, "disabled"), ({"session": {"max_tokens": 10}}, "exhausted")],
)
def test_exhausted_and_disabled_requests_withhold_all_candidates(
    changes: Mapping[str, Any], reason: str
) -> None:
    policy = changed(**changes)
    before = answer(request(named("a", 10)), policy).session
    outcome = answer(request(named("ab")), policy, before)
    assert selected(outcome) == []
    assert omitted(outcome) == {"a": reason, "b": reason}
    assert outcome.session.carried == before.carried


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({}, "missing_field", "$.candidates"),
        ({"candidates": [{"id": "a"}]}, "missing_field", "$.candidates[0].content"),
        ({"candidates": [], "layers": {}}, "unsupported_field", "$.layers"),
        ({"candidates": [], "constraints": PINNED}, "unsupported_field", "$.constraints.pinned"),
    ],
)
def test_missing_and_unread_fields_are_refused(
    policy: Policy, fields: Mapping[str, Any], code: str, pointer: str
) -> None:
    with pytest.raises(EventError) as refused:
        answer(asked(**fields), policy)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)


@SETTINGS
@given(turns, limits, engines)
def test_no_turn_passes_the_limit_and_every_candidate_is_accounted_for(
    turns: Sequence[list[dict[str, Any]]], limit: int, engine: Engine
) -> None:
    policy, session = changed(budget_tokens=limit), EMPTY
    for given_pieces in turns:
        outcome = answer(request(given_pieces), policy, session, engine)
        session = outcome.session
        text = outcome.composed.text or ""
        assert engine.counters[policy.counter].count(text) == outcome.composed.tokens.used <= limit
        assert_accounted(outcome, len(given_pieces))
        assert all(item.fidelity is Fidelity.FULL for item in outcome.composed.items)


@SETTINGS
@given(turns, limits, st.randoms())
def test_shuffling_changes_no_byte(
    turns: Sequence[list[dict[str, Any]]], limit: int, chance: random.Random
) -> None:
    policy = changed(budget_tokens=limit)
    rows = [EMPTY, EMPTY]
    for number, given_pieces in enumerate(turns):
        shuffled = chance.sample(given_pieces, len(given_pieces))
        both = [
            answer(request(each, request_id=f"r{number}"), policy, row)
            for each, row in zip((given_pieces, shuffled), rows, strict=True)
        ]
        rows = [each.session for each in both]
        one, other = map(_bytes_of, both)
        assert one == other


@SETTINGS
@given(turns, limits)
def test_the_bytes_are_the_same_with_and_without_a_memory(
    turns: Sequence[list[dict[str, Any]]], limit: int
) -> None:
    policy, memory = changed(budget_tokens=limit), Memory()
    forgetful = mindful = EMPTY
    for number, given_pieces in enumerate([*turns, *turns]):
        turn = request(given_pieces, request_id=f"r{number}")
        without = answer(turn, policy, forgetful)
        within = answer(turn, policy, mindful, memory=memory)
        forgetful, mindful = without.session, within.session
        assert _bytes_of(without) == _bytes_of(within)


def _bytes_of(outcome: Any) -> tuple[bytes, bytes, bytes]:
    return encode(outcome.session), encode(outcome.composed), encode(outcome.decision)


def test_carried_ids_are_in_the_cache_key(policy: Policy) -> None:
    memory, session, found = Memory(), EMPTY, []
    for _ in range(6):
        outcome = answer(request(named("abcd")), policy, session, memory=memory)
        session = outcome.session
        found.append((outcome.cache_hit, "".join(selected(outcome)), outcome.decision.cache_key))
    assert [(hit, names) for hit, names, _ in found] == [
        (False, "ab"),
        (False, "cd"),
        (False, "ab"),
        (True, "cd"),
        (True, "ab"),
        (True, "cd"),
    ]
    assert len({key for _, _, key in found}) == 3


def test_a_policy_that_was_changed_finds_nothing_carried(policy: Policy) -> None:
    before = answer(request(named("abcd")), policy).session
    assert selected(answer(request(named("abcd")), policy, before)) == ["c", "d"]
    assert selected(answer(request(named("abcd")), changed(budget_tokens=39), before)) == ["a", "b"]


def test_the_decision_has_every_candidate_in_the_order_of_the_turn(policy: Policy) -> None:
    before = answer(request(named("abcd")), policy).session
    decision = json.loads(encode(answer(request(named("abcd")), policy, before).decision))
    assert decision["policy"]["strategy"] == "rotation"
    assert [
        (candidate["rank"], candidate["id"], candidate["outcome"]) for candidate in decision["candidates"]
    ] == [
        (1, "c", "selected"),
        (2, "d", "selected"),
        (3, "a", "omitted"),
        (4, "b", "omitted"),
    ]


def test_sessions_without_kafka_take_turns(policy: Policy) -> None:
    harness = Harness([policy])
    answers = [harness.compose({"session_id": name, "candidates": named("abc")}) for name in ("s", "t", "s")]
    assert [selected(each) for each in answers] == [["a", "b"], ["a", "b"], ["c", "a"]]


def test_the_command_composes_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_POLICIES", str(HERE))
    monkeypatch.setenv("APPORTION_FINGERPRINT_SECRET", "a fixed secret for tests")
    event = {"type": "context-request", "session_id": "s", "requested_at": NOW, "candidates": named("abc")}
    events = [json.dumps(event | {"request_id": name}) for name in ("r1", "r2")]
    decisions = tmp_path / "decisions.jsonl"
    ended = apportion(
        "compose", "--policy", "rotation", "--decisions", decisions, stdin="\n".join(events).encode()
    )
    assert (ended.exit_code, ended.err) == (0, "")
    composed = [json.loads(line) for line in ended.out.splitlines()]
    assert [[item["id"] for item in each["items"]] for each in composed] == [["a", "b"], ["c", "a"]]
    assert [len(json.loads(line)["candidates"]) for line in decisions.read_bytes().splitlines()] == [3, 3]


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Sequence[Any]], str]:
    """Return what `apportion explain` prints about one of a request's candidates."""
    monkeypatch.setenv("APPORTION_POLICIES", str(HERE))
    monkeypatch.setenv("APPORTION_DEFAULT_POLICY", "rotation")
    monkeypatch.setenv("APPORTION_FINGERPRINT_SECRET", "a fixed secret for tests")
    events, decisions = tmp_path / "events.jsonl", tmp_path / "decisions.jsonl"

    def run(candidate_id: str, candidates: Sequence[Any]) -> str:
        event = {"type": "context-request", "session_id": "s", "request_id": "r", "requested_at": NOW}
        events.write_text(json.dumps(event | {"candidates": candidates}) + "\n")
        assert apportion("compose", events, "--decisions", decisions).exit_code == 0
        identity = json.loads(decisions.read_bytes())["decision_id"]
        flags = ("--decisions", decisions, "--candidate", candidate_id, "--events", events)
        ended = apportion("explain", identity, *flags)
        assert (ended.exit_code, ended.err) == (0, "")
        return ended.out.decode()

    return run


def test_explain_finds_how_many_its_turn_must_take_and_tries_nothing_else(
    explain: Callable[[str, Sequence[Any]], str],
) -> None:
    printed = explain("d", named("abcd"))
    assert "Left out, no_room: as many as one turn takes stood before it." in printed
    rows = [row.split() for row in printed.splitlines()]
    assert ["rotation.most", "2", "4", "0", "full"] in rows
    assert not any(row[:1] == ["budget_tokens"] for row in rows)


def test_explain_uses_the_common_words_for_common_reasons(
    explain: Callable[[str, Sequence[Any]], str],
) -> None:
    printed = explain("a", named("a", 60))
    assert "Left out, budget_exceeded: it did not fit under the limit of the request." in printed
    rows = [row.split() for row in printed.splitlines()]
    assert ["budget_tokens", "40", "60", "0", "full"] in rows
    assert ["rotation.most", "2", "none", "found", "up", "to", "1,000:", "budget_exceeded"] in rows


def test_the_schemas_know_it() -> None:
    schema = request_schemas()["rotation"]
    assert schema["$defs"]["Candidate"]["required"] == ["content"]
    assert "layers" not in schema["properties"]


def test_it_sees_nothing_that_the_map_does_not_let_a_strategy_see() -> None:
    rows = _rows_below("strategies")
    seen = {
        module.removeprefix("apportion.core.")
        for file in HERE.glob("rotation/*.py")
        for module in _imports(file)
        if module.split(".")[0] == "apportion"
    }
    assert {
        "strategy_api.task",
        "strategy_api.verdict",
        "strategy_api.policy",
        "strategy_api.strategy",
    } <= seen
    assert {module for module in seen if not module.startswith("strategy_api.")} <= rows


def _rows_below(row: str) -> set[str]:
    """Return the core's modules below a row of the map, as configured for import-linter."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [
        declared
        for declared in told
        if declared["type"] == "layers" and declared["containers"] == ["apportion.core"]
    ]
    below = contract["layers"][contract["layers"].index(row) + 1 :]
    return {module.strip() for line in below for module in line.replace(":", "|").split("|")}


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
