"""`apportion explain` as it is called."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console, RenderableType
from support.commands import Ended, apportion
from support.composing import ENGINE, answer, candidate, lanes_policy, request
from support.recording import altered, asked

from apportion.core.results import Entry, Fidelity, Outcome, Reason
from apportion.core.session.row import EMPTY
from apportion.core.strategies import STRATEGIES, meaning_of
from apportion.core.strategy_api.levers import Lever
from apportion.decisions.explain.candidate import candidate_explanation, changes_explanation
from apportion.decisions.explain.decision import explanation
from apportion.decisions.replay.origin import Origin
from apportion.decisions.replay.why import AdmittingChange, Searched, Why, can_help, why

POLICY = """
name = "lanes"
version = "9"
strategy = "lanes"
counter = "chars4"
budget_tokens = 200

[lanes.local]
priority = 0
min_tokens = 0
max_tokens = 100
"""
CANDIDATES = [
    candidate("a", 60, relevance=0.9),
    candidate("b", 30, relevance=0.6),
    candidate("c", 50, relevance=0.3),
    candidate("out", 10),
    candidate("b", 30, relevance=0.6),
]
EXCLUDED = {"must_exclude": [{"match": {"type": "id", "value": "out"}}]}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)
    Path("policies").mkdir()
    Path("policies/lanes.toml").write_text(POLICY)
    monkeypatch.setenv("APPORTION_POLICIES", "policies")


@pytest.fixture
def decisions() -> list[bytes]:
    """The output of `apportion compose` for two requests."""
    asks = [asked("r1"), asked("r2", candidates=CANDIDATES, constraints=EXCLUDED)]
    Path("events").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in asks))
    assert apportion("compose", "events", "--decisions", "decisions").exit_code == 0
    return Path("decisions").read_bytes().splitlines()


def identity(line: bytes) -> str:
    return str(json.loads(line)["decision_id"])


def explain(line: bytes, *arguments: str, stdin: bytes = b"") -> Ended:
    return apportion("explain", identity(line)[:12], "--decisions", "decisions", *arguments, stdin=stdin)


def test_a_decision_is_shown_as_compose_explains_it(decisions: list[bytes]) -> None:
    ended = explain(decisions[1])
    assert (ended.exit_code, ended.err) == (0, "")
    explained = apportion("compose", "events", "--explain").err
    assert ended.out.decode() in explained
    assert f"decision {identity(decisions[1])}" in ended.out.decode()


def test_only_the_full_explanation_has_the_certificate(decisions: list[bytes]) -> None:
    certificate = {"value": 5_000, "bound": 5_000, "gap": 0, "price": 0, "groups": []}
    certified = altered(decisions[1], "certificate", value=certificate)
    Path("decisions").write_bytes(certified + b"\n")
    assert b"the best possible" not in explain(certified).out
    assert b"value 5, the best possible" in explain(certified, "--full").out
    assert explain(certified, "--full", "--candidate", "c").exit_code == 2


def test_decisions_may_come_through_a_pipe(decisions: list[bytes]) -> None:
    ended = apportion("explain", identity(decisions[0]), "--decisions", "-", stdin=decisions[0] + b"\n")
    assert ended.exit_code == 0


def test_an_id_that_is_unknown_or_ambiguous_is_wrong_usage(decisions: list[bytes]) -> None:
    ended = apportion("explain", "none", "--decisions", "decisions")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: unknown_decision: ")
    ended = apportion("explain", "", "--decisions", "decisions")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: ambiguous_decision: several ids begin so")
    assert all(identity(line) in ended.err for line in decisions)


def test_a_candidates_needed_and_remaining_tokens_are_explained(decisions: list[bytes]) -> None:
    ended = explain(decisions[1], "--candidate", "c")
    assert (ended.exit_code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert lines[0] == "candidate c"
    assert "Left out, lane_max_reached: it did not fit under its lane's ceiling." in lines
    assert "It needed 50 tokens; when it was considered last 10 were left, 40 too few." in lines
    assert "In the end local had: ceiling 100, 90 used, 140 available." in lines
    assert lines[-1].startswith("With --events FILE")


def test_a_reason_of_another_version_is_shown_by_its_name(decisions: list[bytes]) -> None:
    newer = decisions[1].replace(b'"reason":"lane_max_reached"', b'"reason":"quite_new"')
    assert newer != decisions[1]
    newer = altered(newer, "candidates", 0, "score", value="9092624259849807")
    Path("decisions").write_bytes(newer + b"\n")
    whole = explain(newer)
    assert (whole.exit_code, whole.err) == (0, "")
    assert {"quite_new", "9092624259849.807"} <= set(whole.out.decode().replace(",", "").split())
    ended = explain(newer, "--candidate", "c")
    assert (ended.exit_code, ended.err) == (0, "")
    assert "Left out, quite_new." in ended.out.decode()
    searched = explain(newer, "--candidate", "c", "--events", "events")
    assert "difference at $.candidates[0].score" in searched.err


def test_with_the_events_the_smallest_admitting_changes_are_shown(decisions: list[bytes]) -> None:
    ended = explain(decisions[1], "--candidate", "c", "--events", "events")
    assert (ended.exit_code, ended.err) == (0, "")
    told = ended.out.decode()
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.strip()}
    assert rows["budget_tokens"] == ["200", "none", "found:", "lane_max_reached"]
    assert rows["lanes.local.max_tokens"] == ["100", "140", "0", "full"]
    assert "relevance displaces a" in told
    assert "constraints.pinned displaces a" in told
    assert "\x1b" not in told
    assert ended.out == explain(decisions[1], "--candidate", "c", "--events", "events").out


def test_no_change_is_looked_for_where_a_constraint_excludes(decisions: list[bytes]) -> None:
    alone = explain(decisions[1], "--candidate", "out")
    told = alone.out.decode()
    assert "no total, no ceiling, no score and no pin would have admitted it" in told
    assert "must_exclude[0] of the request" in told
    assert "--events" not in told
    assert explain(decisions[1], "--candidate", "out", "--events", "nothing").exit_code == 2
    assert explain(decisions[1], "--candidate", "out", "--events", "events") == alone


def test_a_selected_candidate_is_shown_with_its_duplicates(decisions: list[bytes]) -> None:
    told = explain(decisions[1], "--candidate", "b", "--events", "events").out.decode()
    assert "It is in the context: full, 30 tokens." in told
    assert "has its id once more" in told


def test_the_first_decision_of_a_repeated_request_is_named(decisions: list[bytes]) -> None:
    again = Path("events").read_bytes() + Path("events").read_bytes().splitlines()[1]
    apportion("compose", "-", "--decisions", "decisions", "--force", stdin=again)
    last = Path("decisions").read_bytes().splitlines()[-1]
    told = explain(last, "--candidate", "c", "--events", "events").out.decode()
    assert f"answered before, by decision {identity(decisions[1])}" in told
    assert "Left out" not in told


def test_an_unknown_candidate_is_wrong_usage_and_not_repeated(decisions: list[bytes]) -> None:
    ended = explain(decisions[1], "--candidate", "private")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err == "apportion: unknown_candidate: the decision lists no candidate with this id\n"


def test_the_error_counts_the_unlisted_candidates(decisions: list[bytes]) -> None:
    short = altered(decisions[1], "unlisted", value=[{"reason": "no_room", "count": 7}])
    Path("decisions").write_bytes(short + b"\n")
    assert "7 that were left out are not listed" in explain(short, "--candidate", "x").err


def test_without_its_request_the_record_is_shown_and_the_command_fails(decisions: list[bytes]) -> None:
    Path("others").write_bytes(Path("events").read_bytes().splitlines()[0] + b"\n")
    ended = explain(decisions[1], "--candidate", "c", "--events", "others")
    assert ended.exit_code == 1
    assert ended.err.startswith("apportion: no_event: ")
    assert b"It needed 50 tokens" in ended.out
    assert b"smallest" not in ended.out


def test_events_that_give_another_decision_are_named(decisions: list[bytes]) -> None:
    changed = altered(decisions[1], "tokens", "used", value=1)
    Path("decisions").write_bytes(decisions[0] + b"\n" + changed + b"\n")
    ended = explain(changed, "--candidate", "c", "--events", "events")
    assert ended.exit_code == 1
    assert ended.err.startswith("apportion: difference at $.tokens.used: ")


def test_a_field_that_was_put_into_a_log_cannot_write_to_a_terminal(decisions: list[bytes]) -> None:
    changed = altered(decisions[1], "tokens", "\x1b[2J", value=1)
    Path("decisions").write_bytes(decisions[0] + b"\n" + changed + b"\n")
    ended = explain(changed, "--candidate", "c", "--events", "events")
    assert ended.exit_code == 1
    assert "difference at $.tokens.\\x1b[2J" in ended.err


def test_incomplete_options_are_wrong_usage(decisions: list[bytes]) -> None:
    assert explain(decisions[1], "--events", "events").exit_code == 2
    assert explain(decisions[1], "--candidate", "c", "--events", "decisions").exit_code == 2
    assert apportion("explain", "a").exit_code == 2
    assert apportion("explain", "a", "--decisions", "nowhere").exit_code == 2


def shown(what: RenderableType, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(what)
    return file.getvalue().splitlines()


def changes(*displaced: str) -> RenderableType:
    own: dict[str, Any] = {"ended": Searched.ADMITTED, "fidelity": Fidelity.SHRUNK, "displaced": displaced}
    total = AdmittingChange(
        lever=Lever.TOTAL, key="budget_tokens", now=8_000, most=1 << 53, needed=8_123, **own
    )
    wide = AdmittingChange(
        lever=Lever.CEILING, key="lanes.a_long_name.max_tokens", now=1, most=2, needed=2, **own
    )
    refusal: dict[str, Any] = {"ended": Searched.REFUSED, "reason": Reason.NO_ROOM}
    stopped = AdmittingChange(lever=Lever.SCORE, key="relevance", now=500, most=1_000, ended=Searched.STOPPED)
    refused = AdmittingChange(lever=Lever.SCORE, key="activation", now=500, most=1_000, **refusal)
    return changes_explanation(Why((total, wide, stopped, refused), 12_345))


@pytest.mark.parametrize("width", [80, 120])
def test_changes_fit_a_terminal_and_ids_stay_whole(width: int) -> None:
    name = "3DK6gMKXnwpKbcFOeOUkOhb1"
    lines = shown(changes(name), width)
    assert max(map(len, lines)) <= width
    assert sum(name in line for line in lines) == 2
    assert any(line.split() == ["budget_tokens", "8,000", "8,123", "1", "shrunk"] for line in lines)


def test_a_reached_search_limit_and_an_exhausted_range_are_shown() -> None:
    told = "\n".join(shown(changes(), 120))
    assert "not found: limit reached" in told
    assert "none found up to 1.000: no_room" in told
    assert "The limit of recompositions was reached" in told
    assert "12,345 times" in told


def test_the_first_displaced_are_named_and_the_rest_counted() -> None:
    told = " ".join(" ".join(shown(changes(*map(str, range(13))), 120)).split())
    assert "8, 9 and 3 more" in told


REASONS = [(name, reason) for name in STRATEGIES for reason in Reason if meaning_of(name, reason)]


@pytest.mark.parametrize(("strategy", "reason"), REASONS)
def test_every_reason_is_explained(strategy: str, reason: Reason) -> None:
    made = answer(request(), lanes_policy()).decision
    made = replace(made, policy=replace(made.policy, strategy=strategy))
    entry = Entry("\x1b[2J", "kind", "group", 1, Outcome.OMITTED, reason=reason)
    lines = shown(candidate_explanation(made, [entry]), 120)
    assert lines[0] == "candidate \\x1b[2J"
    assert any(line.startswith(f"Left out, {reason}: ") for line in lines)


def test_no_reason_is_without_a_meaning() -> None:
    assert {reason for _, reason in REASONS} == set(Reason)


def test_unknown_strategies_and_reasons_are_shown_by_name() -> None:
    made = answer(request(), lanes_policy()).decision
    made = replace(made, policy=replace(made.policy, strategy="another"))
    for reason, line in (
        (Reason("its_own"), "Left out, its_own."),
        (Reason.INFEASIBLE, "Left out, infeasible: "),
    ):
        entry = Entry("a", "kind", "group", 1, Outcome.OMITTED, reason=reason)
        assert line in "\n".join(shown(candidate_explanation(made, [entry]), 120))
    assert can_help("another", Reason("its_own"))
    assert not can_help("another", Reason.NO_CONTENT)


def test_the_overlap_is_shown_with_the_overlapping_candidate() -> None:
    same = "The same passage, which retrieval brought twice."
    lanes = {"local": {"priority": 0, "min_tokens": 20, "max_tokens": 100}}
    policy = lanes_policy(overlap={"threshold": 300}, lanes=lanes)
    ones = [
        candidate(name, content=same, relevance=share) for name, share in (("a", 1), ("b", 0.5), ("c", 0))
    ]
    made = answer(request(ones), policy).decision
    told = [shown(candidate_explanation(made, [entry]), 120) for entry in made.candidates]
    assert "When it was selected, 100.0 % of it was in a." in told[1]
    assert "100.0 % of it is in a." in told[2]
    assert any(line.startswith("Left out, redundant: the candidates selected") for line in told[2])


def test_a_lane_with_a_floor_shows_its_floor() -> None:
    many: Sequence[dict[str, Any]] = [candidate("a", 2_000), candidate("b", 2_000)]
    made = answer(request(many), lanes_policy()).decision
    entries = [entry for entry in made.candidates if entry.reason is not Reason.DUPLICATE][1:]
    told = " ".join(shown(candidate_explanation(made, entries), 120))
    assert "local had: floor 1,000, ceiling 3,000, 2,000 used, 4,000 available" in told


def test_a_source_over_its_quota_shows_the_quota_that_admits_a_candidate() -> None:
    quota = {"max_items_per_source": 1, "max_share_per_source": 500}
    policy = lanes_policy(lanes={"local": {"priority": 0, "min_tokens": 0, "max_tokens": 100, **quota}})
    asked = request(
        [candidate(name, source="a.py", relevance=share) for name, share in (("a", 1), ("b", 0.5))]
    )
    made = answer(asked, policy).decision
    [entry] = [entry for entry in made.candidates if entry.reason is Reason.SOURCE_MAX_REACHED]
    told = "\n".join(shown(candidate_explanation(made, [entry]), 120))
    assert "Left out, source_max_reached: its source had its share of the lane." in told
    found = why(Origin(asked, EMPTY, policy), ENGINE, entry)
    assert [(change.key, change.needed or None, change.displaced) for change in found.changes] == [
        ("lanes.local.max_tokens", None, ()),
        ("lanes.local.max_items_per_source", 2, ()),
        ("lanes.local.max_share_per_source", None, ()),
        ("relevance", None, ()),
        ("constraints.pinned", 1, ("a",)),
    ]


def test_a_superseded_candidate_names_the_newer_one_and_a_pin_admits_it() -> None:
    dated = [
        candidate(name, subject="port", created_at=f"2026-03-01T1{hour}:00:00Z", recency_bucket=None)
        for hour, name in enumerate(("old", "new"))
    ]
    asked, policy = request(dated), lanes_policy()
    made = answer(asked, policy).decision
    [entry] = [entry for entry in made.candidates if entry.reason is Reason.SUPERSEDED]
    told = "\n".join(shown(candidate_explanation(made, [entry]), 120))
    assert "Left out, superseded: a newer candidate of its subject" in told
    assert "new counts instead." in told
    assert "superseded by new" in "\n".join(shown(explanation(made), 140))
    found = why(Origin(asked, EMPTY, policy), ENGINE, entry)
    assert [(change.key, change.needed) for change in found.changes] == [("constraints.pinned", 1)]
