"""The harness that users test with: the worker's bytes, from events as a test gives them."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.commands import apportion, environment
from support.composing import artifact, candidate, lanes_policy, request
from support.recording import asked, published

from apportion import Bounds, Candidate, EventError, Fidelity, Outcome, PolicyError, Reason, encode
from apportion.testing import Harness, assert_omitted, assert_selected

POLICY = """
name = "tests"
version = "1"
strategy = "lanes"
counter = "chars4"
budget_tokens = 60

[lanes.local]
priority = 0
min_tokens = 0
max_tokens = 50
"""
pytest_plugins = ["apportion.testing.fixtures"]


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    (tmp_path / "policies").mkdir()
    file = tmp_path / "policies/tests.toml"
    file.write_text(POLICY, "utf-8")
    return Harness([file])


def test_outputs_have_the_bytes_of_apportion_compose(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("APPORTION_POLICIES", "policies")
    monkeypatch.setenv("APPORTION_DEFAULT_POLICY", "tests")
    monkeypatch.setenv("APPORTION_FINGERPRINT_SECRET", "apportion.testing")
    by_path = candidate("", id=None, path="src/auth.py")
    events = [
        asked("r1"),
        published(candidate("c", 30)),
        asked("r2", candidates=[by_path, candidate("d", 90)]),
        asked("r3", budget_tokens="many"),
        asked("r1"),
    ]
    lines = [json.dumps(event).encode() for event in events] + [b"{"]
    Path("events").write_bytes(b"\n".join(lines))
    written = apportion("compose", "events", "--decisions", "decisions", "--dead-letters", "letters")
    assert written.exit_code == 3
    harness.send(*events[:3], *lines[3:])
    assert [encode(composed) for composed in harness.composed] == written.out.splitlines()
    assert [encode(decision) for decision in harness.decisions] == Path("decisions").read_bytes().splitlines()
    assert [encode(letter) for letter in harness.dead_letters] == Path("letters").read_bytes().splitlines()
    assert len(harness.dead_letters) == 2


def test_a_typed_event_is_answered_as_its_bytes(harness: Harness) -> None:
    typed, other = request([candidate("a")]), Harness([lanes_policy()])
    assert other.compose(typed) == Harness([lanes_policy()]).compose(encode(typed))
    harness.send(artifact(candidate("b")))
    assert [pooled.id for pooled in harness.session("s").pool] == ["b"]


def test_a_mapping_may_hold_typed_parts_and_leave_out_what_does_not_matter(harness: Harness) -> None:
    given = Candidate(
        id="a",
        kind="rule_doc",
        lane="local",
        content="text",
        created_at=harness.now,
        relevance=1,
        specificity=1,
        risk_alignment=1,
    )
    first = harness.compose({"candidates": [given]}).decision
    harness.advance(timedelta(seconds=1))
    second = harness.compose({"candidates": [given], "session_id": "other"}).decision
    assert first.requested_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert second.requested_at == harness.now == first.requested_at + timedelta(seconds=1)
    assert first.request_id != second.request_id
    assert (harness.session().prompts, harness.session("other").prompts) == (1, 1)
    assert (harness.session("none").prompts, harness.session(tenant="none").prompts) == (0, 0)


def test_a_retraction_may_leave_out_its_time(harness: Harness) -> None:
    harness.send({"type": "context-artifact", "artifact": candidate("a")})
    assert [pooled.id for pooled in harness.session().pool] == ["a"]
    harness.send({"type": "context-retraction", "id": "a"})
    assert harness.session().pool == ()
    assert harness.dead_letters == []


def test_a_refused_request_raises_its_error_and_is_a_dead_letter(harness: Harness) -> None:
    with pytest.raises(EventError, match=r"^wrong_type: .* \(at \$\.candidates\)$"):
        harness.compose({"candidates": 3})
    [letter] = harness.dead_letters
    assert letter.error.pointer == "$.candidates"
    small = Harness(bounds=Bounds(event_max_bytes=10))
    small.send({"candidates": []})
    assert small.dead_letters[0].error.code == "too_large"


def test_only_a_request_is_composed(harness: Harness) -> None:
    with pytest.raises(TypeError, match="use `send`"):
        harness.compose({"type": "context-artifact", "artifact": candidate("a")})


def test_a_broken_policy_file_names_the_error(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text('name = "broken"', "utf-8")
    with pytest.raises(PolicyError, match="strategy"):
        Harness([tmp_path / "broken.toml"])


def test_the_fixture_has_the_built_in_policies(apportion_harness: Harness) -> None:
    assert apportion_harness.compose({"candidates": []}).decision.policy.name == "lanes"
    assert apportion_harness.compose({"candidates": [], "policy": "agent"}).decision.policy.name == "agent"


def test_assertions_name_candidates_and_reasons(harness: Harness) -> None:
    decision = harness.compose({"candidates": [candidate("a", 20), candidate("long", 60)]}).decision
    assert_selected(decision, "a", fidelity=Fidelity.FULL)
    assert_omitted(decision, "long", reason=Reason.LANE_MAX_REACHED)
    assert_omitted(decision, "long")
    expected: list[tuple[Callable[[], None], str]] = [
        (lambda: assert_selected(decision, "a", "long"), "long was expected in the context, and was omitted"),
        (lambda: assert_selected(decision, "a", fidelity="shrunk"), "a was expected as shrunk, and is"),
        (lambda: assert_omitted(decision, "a"), "a was expected to be omitted, and was selected"),
        (lambda: assert_omitted(decision, "long", reason="no_room"), "as no_room, and was as lane_max"),
        (lambda: assert_omitted(decision, "none"), "none: the decision lists no candidate with this id"),
    ]
    for wrong, told in expected:
        with pytest.raises(AssertionError) as failed:
            wrong()
        first, summary, *listed = str(failed.value).splitlines()
        assert told in first
        assert summary == decision.summary
        omitted = "omitted, lane_max_reached (it did not fit under its lane's ceiling)"
        assert listed == [
            "  1 a: selected, full, 20 tokens",
            f"  2 long: {omitted}, 60 tokens needed, 30 left",
        ]


def test_a_failure_lists_a_bounded_number_of_candidates(harness: Harness) -> None:
    decision = harness.compose({"candidates": [candidate(f"c{n}", 1) for n in range(90)]}).decision
    assert {entry.outcome for entry in decision.candidates} == {Outcome.SELECTED, Outcome.OMITTED}
    with pytest.raises(AssertionError) as failed:
        assert_selected(decision, "none")
    assert len(str(failed.value).splitlines()) == 43
    assert str(failed.value).endswith("\n  and 50 more")


def test_the_harness_loads_neither_pytest_nor_kafka() -> None:
    code = "import sys; from apportion.testing import Harness; Harness(); print(*sys.modules)"
    out = subprocess.check_output([sys.executable, "-c", code], env=environment(), text=True)  # noqa: S603
    assert not {"pytest", "aiokafka", "faust", "rich", "typer", "apportion.settings"} & set(out.split())
