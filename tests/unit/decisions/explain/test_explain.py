import inspect
import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.console import Console
from support.composing import answer, candidate, lanes_policy, request

from apportion.core.event_time import utc
from apportion.core.results import (
    SCHEMA_VERSION,
    Certificate,
    ChatWindow,
    ConstraintCount,
    ContextDecision,
    CounterRef,
    DecisionTokens,
    Digests,
    Entry,
    Fidelity,
    Group,
    GroupPrice,
    Ledger,
    Limits,
    Outcome,
    PolicyRef,
    Reason,
    ReasonCount,
    Redundant,
    SessionLedger,
    Shortfall,
    Status,
    WindowBreak,
)
from apportion.core.wire import codec
from apportion.decisions.explain.decision import OMISSIONS_SHOWN, explanation, in_points

DIGEST = "sha256:" + "0" * 64
LEDGER = Ledger(
    prompts=0,
    sequence=0,
    spent_tokens=0,
    started_at=utc(0),
    last_event_at=utc(0),
    expires_at=None,
    injections=0,
    pool_artifacts=0,
    pool_bytes=0,
)


def decision(**changes: Any) -> ContextDecision:
    """Return a decision as a strategy that has nothing special about it would give it."""
    fields: dict[str, Any] = {
        "decision_id": "0" * 32,
        "request_id": "r",
        "session_id": "s",
        "tenant": "default",
        "requested_at": datetime(2026, 3, 1, tzinfo=UTC),
        "engine_version": "1",
        "policy": PolicyRef(name="test", version="1", strategy="test", digest=DIGEST),
        "counter": CounterRef(name="chars4", digest=DIGEST),
        "digests": Digests(**dict.fromkeys(Digests.__struct_fields__, DIGEST)),
        "status": Status.COMPOSED,
        "summary": "the summary",
        "tokens": DecisionTokens(limit=1_000, reserved=0, estimated=250, used=250, remaining=750),
        "session": SessionLedger(before=LEDGER, after=LEDGER),
        "schema_version": SCHEMA_VERSION,
        "limits": Limits(),
        "candidates_total": 0,
        "candidates_selected": 0,
    }
    return ContextDecision(**fields | changes)


def omission(rank: int, reason: Reason = Reason.NO_ROOM, **more: Any) -> Entry:
    return Entry(f"c{rank}", "kind", "group", rank, Outcome.OMITTED, reason=reason, **more)


def selection(rank: int, **more: Any) -> Entry:
    own: dict[str, Any] = {"score": 530, "tokens": 12, "fidelity": Fidelity.SUMMARY} | more
    return Entry(f"c{rank}", "kind", "group", rank, Outcome.SELECTED, **own)


def shown(
    explained: ContextDecision,
    encoding: str = "utf-8",
    width: int = 100,
    *,
    terminal: bool = False,
    full: bool = False,
) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(
        file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else None
    )
    console.print(explanation(explained, full=full))
    file.seek(0)
    return file.read()


def row(text: str, first: str) -> list[str]:
    """Return the cells of the one line that begins with this."""
    [line] = [line for line in text.splitlines() if line.split()[:1] == [first]]
    return line.split()


def test_an_explanation_comes_from_the_decision_record_alone() -> None:
    assert [*inspect.signature(explanation).parameters] == ["decision", "full"]
    pinned = {"pinned": [{"match": {"type": "id", "value": "a"}, "reason": "private"}]}
    asked = request([candidate("a"), candidate("b", 900), candidate("c", content="")], constraints=pinned)
    made = answer(asked, lanes_policy(budget_tokens=2_000)).decision
    travelled = msgspec.json.decode(codec.encode(made), type=ContextDecision)
    assert shown(travelled) == shown(made)


def test_the_summary_comes_first() -> None:
    assert shown(decision()).splitlines()[0] == "the summary"


@pytest.mark.parametrize(
    ("used", "most", "full"), [(0, 100, 0), (1, 100, 1), (50, 100, 12), (100, 100, 24), (130, 100, 24)]
)
def test_a_bar_is_as_full_as_its_group(used: int, most: int, full: int) -> None:
    group = Group(name="local", min=0, max=most, used=used, available=200, selected=1, rejected=2)
    _, bar, *cells = row(shown(decision(groups=(group,))), "local")
    assert bar == "█" * full + "░" * (24 - full)
    assert cells == [str(used), str(most), "200", "1", "of", "3"]


def test_a_floor_is_marked_in_its_bar_and_reported_if_unmet() -> None:
    short = Shortfall(requested=50, available=7)
    group = Group(name="local", min=50, max=100, used=0, available=7, selected=0, rejected=1, shortfall=short)
    text = shown(decision(groups=(group,)))
    assert row(text, "local")[1] == "░" * 12 + "│" + "░" * 11
    assert "floor of local not met: 50 asked for, its candidates have 7" in text


def test_a_group_without_a_maximum_is_measured_by_the_limit() -> None:
    group = Group(name="messages", min=0, used=500, available=500, selected=1, rejected=0)
    assert row(shown(decision(groups=(group,))), "messages")[1:4] == ["█" * 12 + "░" * 12, "500", "1,000"]


def test_a_limit_of_nothing_has_an_empty_bar() -> None:
    nothing = DecisionTokens(limit=0, reserved=0, estimated=0, used=0, remaining=0)
    group = Group(name="local", min=0, max=0, used=0, available=0, selected=0, rejected=0)
    text = shown(decision(tokens=nothing, groups=(group,), status=Status.DISABLED))
    assert row(text, "all")[1] == row(text, "local")[1] == "░" * 24


def test_reserved_and_remaining_tokens_are_shown() -> None:
    tokens = DecisionTokens(limit=1_000, reserved=100, estimated=260, used=250, remaining=750)
    assert "750 tokens left, 100 reserved; selected by an estimate of 260" in shown(decision(tokens=tokens))


def test_selected_candidates_have_kind_group_score_tokens_and_fidelity() -> None:
    text = shown(decision(candidates=(selection(1), selection(2, constraint="pinned[0]"))))
    assert row(text, "1") == ["1", "kind", "group", "0.530", "12", "summary", "c1"]
    assert row(text, "2")[-2:] == ["pinned[0]", "c2"]


def test_a_score_may_be_more_than_one() -> None:
    assert row(shown(decision(candidates=(selection(1, score=12_003),))), "1")[3] == "12.003"


@pytest.mark.parametrize(
    ("score", "text"),
    [
        ("9092624259849807", "9092624259849.807"),
        ("7", "0.007"),
        ("high", "high"),
    ],
)
def test_a_score_in_another_form_is_shown_whole(score: str, text: str) -> None:
    assert row(shown(decision(candidates=(selection(1, score=score),))), "1")[3] == text


def test_a_score_may_have_more_digits_than_python_converts() -> None:
    assert in_points("2" + 5_000 * "0") == "2" + 4_997 * "0" + ".000"


def test_an_omission_shows_needed_and_remaining_tokens_and_the_reason() -> None:
    text = shown(decision(candidates=(omission(3, tokens=200, needed=300, left=120), omission(4, tokens=80))))
    assert row(text, "3") == ["3", "group", "300", "120", "no_room", "c3"]
    assert row(text, "4") == ["4", "group", "80", "no_room", "c4"]


def test_an_omission_shows_the_extra_tokens_for_its_selection() -> None:
    known = omission(3, Reason.LANE_MAX_REACHED, tokens=300, left=120, more=480)
    text = shown(decision(candidates=(known, omission(4, tokens=80))))
    assert row(text, "3") == ["3", "group", "300", "120", "480", "lane_max_reached", "c3"]
    assert "more: with so many tokens more of that bound alone it is selected" in text


def test_the_first_omissions_are_listed_and_the_rest_counted() -> None:
    many = tuple(omission(rank) for rank in range(1, OMISSIONS_SHOWN + 3))
    reasons = (ReasonCount(Reason.NO_ROOM, len(many) + 5), ReasonCount(Reason.BACKOFF, 2))
    unlisted = (ReasonCount(Reason.NO_ROOM, 5), ReasonCount(Reason.BACKOFF, 2))
    text = shown(decision(candidates=many, reasons=reasons, unlisted=unlisted))
    assert f"c{OMISSIONS_SHOWN}\n" in text
    assert f"c{OMISSIONS_SHOWN + 1}\n" not in text
    assert "and 9 more: no_room 7, backoff 2" in text


def test_constraints_show_their_number_of_matches() -> None:
    count = ConstraintCount(name="must_exclude", given=3, matched=1, unmatched=2)
    text = shown(decision(constraints=(count,)))
    assert "must_exclude: 3 given, 1 matched, 2 unmatched" in text
    assert "pinned" not in text


def test_the_session_shows_its_spent_tokens() -> None:
    before = msgspec.structs.replace(LEDGER, prompts=3, sequence=4, spent_tokens=1_000)
    after = msgspec.structs.replace(
        before, prompts=4, sequence=5, spent_tokens=1_250, pool_artifacts=2, pool_bytes=99, expires_at=utc(0)
    )
    text = shown(decision(session=SessionLedger(before=before, after=after), evicted=("old", "older")))
    assert "prompt 4, answer 5: 1,000 tokens spent before, 250 now, 1,250 in all" in text
    assert "artifacts in the pool: 2, with 99 bytes of content" in text
    assert "pushed out of the pool: old, older" in text
    assert "starts afresh at 1970-01-01T00:00:00+00:00" in text
    many = shown(decision(evicted=("old", "older"), evicted_unlisted=12))
    assert "pushed out of the pool: old, older, and 12 before them" in many


def test_a_duplicate_names_the_decision_that_answered_first() -> None:
    text = shown(decision(status=Status.DUPLICATE, duplicate_of="f" * 32))
    assert "answered before" in text
    assert "f" * 32 in text


@pytest.mark.parametrize("status", Status)
def test_every_status_is_explained(status: Status) -> None:
    text = shown(decision(status=status))
    assert (len(text.splitlines()) > len(shown(decision()).splitlines())) == (status is not Status.COMPOSED)


@pytest.mark.parametrize("broken", WindowBreak)
def test_every_break_of_a_window_is_explained(broken: WindowBreak) -> None:
    window = ChatWindow(tokens=0, share=0, cut=2, since=1, broken=broken)
    assert f"broken: {broken}, " in shown(decision(window=window))


def test_a_moved_message_is_marked() -> None:
    assert "full, moved" in shown(
        decision(candidates=(selection(1, fidelity=Fidelity.FULL, moved=True), selection(2)))
    )


def test_a_pipe_gets_no_colours_and_a_terminal_does() -> None:
    assert "\x1b" not in shown(decision())
    assert "\x1b[" in shown(decision(), terminal=True)


@pytest.mark.parametrize(("used", "colour"), [(100, "\x1b[36m"), (101, "\x1b[31m")])
def test_a_bar_that_is_too_full_is_red(used: int, colour: str) -> None:
    group = Group(name="local", min=0, max=100, used=used, available=used, selected=1, rejected=0)
    [line] = [
        line for line in shown(decision(groups=(group,)), terminal=True).splitlines() if "local" in line
    ]
    assert f"{colour}{'█' * 24}" in line


def test_an_encoding_without_blocks_gets_ascii() -> None:
    group = Group(name="local", min=50, max=100, used=25, available=25, selected=1, rejected=0)
    text = shown(decision(groups=(group,), candidates=(selection(1), omission(2))), encoding="ascii")
    assert row(text, "local")[1] == "######------|-----------"


def test_a_bar_keeps_its_length_where_there_is_little_room() -> None:
    name = "a-very-long-name-of-a-lane-that-somebody-thought-of"
    group = Group(name=name, min=0, max=100, used=100, available=100, selected=1, rejected=0)
    assert "█" * 24 in shown(decision(groups=(group,)), width=80)


def test_an_id_of_a_path_is_shown_whole_on_a_narrow_terminal() -> None:
    name = "3DK6gMKXnwpKbcFOeOUkOhb1"
    chosen = Entry(name, "dependency_graph", "structure", 1, Outcome.SELECTED, 728, tokens=1_200)
    left = omission(2, Reason.LANE_MAX_REACHED, score=728, tokens=1_300, left=1_200)
    left = msgspec.structs.replace(left, id=name, group="structure")
    assert shown(decision(candidates=(chosen, left)), width=80).count(name) == 2


def test_ids_cannot_move_the_cursor() -> None:
    hostile = "\x1b[2J\r\nall"
    text = shown(
        decision(
            request_id=hostile,
            session_id=hostile,
            evicted=(hostile,),
            candidates=(Entry(hostile, hostile, hostile, 1, Outcome.SELECTED),),
            groups=(Group(name=hostile, min=0, used=0, available=0, selected=0, rejected=0),),
        )
    )
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.count("\\x1b[2J\\r\\nall") >= 4


def test_a_margin_is_described_as_of_the_last_consideration() -> None:
    left = omission(1, Reason.BUDGET_EXCEEDED, tokens=5, left=0)
    said = "left: when the candidate was considered last, not in the end"
    assert said in shown(decision(candidates=(left,)))
    assert said not in shown(decision(candidates=(omission(1, Reason.NO_CONTENT),)))


def test_text_in_brackets_is_no_markup() -> None:
    assert "[bold]x[/bold]" in shown(decision(summary="[bold]x[/bold]"))


def test_a_certificate_is_explained_in_words() -> None:
    certificate = Certificate(
        value=3_412_600,
        bound=3_440_000,
        gap=8,
        price=512,
        groups=(GroupPrice(name="retrieved", ceiling=120), GroupPrice(name="rules", floor=50)),
        undiscounted=True,
        without_quotas=True,
    )
    told = " ".join(shown(decision(certificate=certificate), full=True).split())
    assert (
        "value 3,412, within 0.8 % of the best possible; 1,000 more tokens would add about 512; "
        "the ceiling of retrieved costs about 120 for every 1,000 tokens; "
        "the floor of rules costs about 50 for every 1,000 tokens (overlap not discounted) "
        "(quotas of sources not counted)"
    ) in told


def test_the_best_possible_selection_is_called_that() -> None:
    best = Certificate(value=5_000, bound=5_000, gap=0, price=0, groups=())
    assert "value 5, the best possible\n" in shown(decision(certificate=best), full=True)
    assert shown(decision(certificate=best)) == shown(decision())


def test_a_value_beyond_exact_integers_is_marked() -> None:
    great = Certificate(value="9" * 30, bound="9" * 30, gap=0, price="9" * 20, groups=())
    told = shown(decision(certificate=great), full=True)
    assert "value more than 2**53, the best possible; 1,000 more tokens would add about more than" in told


def test_the_overlap_is_shown_next_to_the_reason() -> None:
    said = Redundant("first", 812)
    candidates = (
        selection(1, fidelity=Fidelity.FULL, redundant=said),
        omission(2, Reason.REDUNDANT, redundant=said),
    )
    told = shown(decision(candidates=candidates, candidates_total=2))
    assert "full, 81.2 % in first" in told
    assert "redundant, 81.2 % in first" in told


def test_a_query_is_explained_by_matches_relevance_and_shown_lines() -> None:
    steps = "\n\n".join(f"def step_{n}():\n    return refund_{n}()" for n in range(40))
    candidates = [candidate("a", content=steps, relevance=None), candidate("b", relevance=None)]
    policy = lanes_policy(query={"passage_characters": 100})
    made = answer(request(candidates, query="refund_7 zebra", budget_tokens=40), policy).decision
    text = shown(made, width=150)
    assert "2 of 3 terms of the query occur in 41 passages" in text
    assert "excerpt, of " in text
    assert "lines 1-3, 22-24" in text
    assert "query 1.000" in text
