"""The session's ledger: limits, duplicates, backoff, expiry, the pool."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from msgspec.structs import replace
from support.composing import (
    ENGINE,
    SECRET,
    answer,
    artifact,
    candidate,
    counted,
    entry_of,
    lanes_policy,
    omitted,
    request,
    retraction,
    selected,
)

from apportion.core.errors import EventError
from apportion.core.event_time import event_time_us
from apportion.core.fingerprints import Secrets, key_id
from apportion.core.path_ids import path_id
from apportion.core.publish import publish
from apportion.core.session.row import (
    CARRIED_MAX,
    CARRIED_MAX_BYTES,
    EMPTY,
    RECENT_REQUESTS_MAX,
    ROW_MAX_BYTES,
    Carried,
    Charge,
    SeenRequest,
    Session,
    after_answer,
    after_artifact,
)
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import encode

DAY_S = 86_400


def limited(**limits: int) -> Policy:
    return lanes_policy(session=limits)


def published(session: Session, *events: Any) -> Session:
    for event in events:
        session = publish(event, session, ENGINE, DAY_S)
    return session


def test_the_session_is_charged_the_exact_count_of_the_output() -> None:
    first = answer(request([candidate("a", 10), candidate("b", 10)]), lanes_policy())
    assert first.composed.tokens.used == 21
    second = answer(request([candidate("c", 5)]), lanes_policy(), first.session)
    assert second.session.spent_tokens == 26
    assert (second.composed.session.prompts, second.session.sequence) == (2, 2)


def test_the_session_caps_each_request_and_is_exhausted_at_its_total() -> None:
    policy = limited(max_tokens=25, max_tokens_per_request=10)
    session, used, statuses = EMPTY, [], []
    for _ in range(4):
        outcome = answer(request([candidate("a", 10), candidate("b", 5)]), policy, session)
        session = outcome.session
        used.append((outcome.decision.tokens.limit, outcome.composed.tokens.used))
        statuses.append(str(outcome.composed.status))
    assert used == [(10, 10), (10, 10), (5, 5), (0, 0)]
    assert statuses == ["composed", "composed", "composed", "exhausted"]
    assert (session.prompts, session.spent_tokens) == (4, 25)
    assert set(omitted(outcome).values()) == {"exhausted"}


def test_a_session_that_has_spent_more_than_its_policy_now_allows_is_exhausted() -> None:
    spent = answer(request([candidate("a", 20)]), lanes_policy()).session
    outcome = answer(request([candidate("b", 1)]), limited(max_tokens=19), spent)
    assert (outcome.composed.status, outcome.decision.tokens.limit) == ("exhausted", 0)


@pytest.mark.parametrize(("total", "asked", "most", "limit"), [
    (100, None, 0, 100), (100, 200, 0, 200), (100, 200, 150, 150), (100, 20, 150, 20), (0, 50, 0, 50),
])  # fmt: skip
def test_a_request_replaces_the_total_up_to_the_policys_bound(
    total: int, asked: int | None, most: int, limit: int
) -> None:
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 9}}
    policy = lanes_policy(budget_tokens=total, budget_tokens_max=most, lanes=lanes)
    assert answer(request([], budget_tokens=asked), policy).decision.tokens.limit == limit


def test_a_total_of_zero_disables_and_still_counts_the_prompt() -> None:
    excluded = {"must_exclude": [{"match": {"type": "id", "value": "a"}, "reason": "r"}]}
    outcome = answer(
        request([candidate("a"), candidate("b")], budget_tokens=0, constraints=excluded), lanes_policy()
    )
    assert (outcome.composed.status, outcome.session.prompts) == ("disabled", 1)
    assert omitted(outcome) == {"a": "disabled", "b": "disabled"}
    assert not outcome.composed.text


def test_a_repeated_request_is_a_duplicate_and_charges_no_tokens() -> None:
    candidates = [candidate("a"), candidate("b")]
    first = answer(request(candidates, request_id="r"), lanes_policy())
    later = request(candidates[::-1], request_id="r", requested_at="2026-03-01T13:00:00Z")
    second = answer(later, lanes_policy(), first.session)
    assert second.composed.status == "duplicate"
    assert second.composed.duplicate_of == first.composed.decision_id != second.composed.decision_id
    assert (second.session.prompts, second.session.sequence) == (1, 2)
    assert second.session.spent_tokens == first.session.spent_tokens
    assert second.session.last_event_us == first.session.last_event_us
    third = answer(later, lanes_policy(), second.session)
    assert len({one.composed.decision_id for one in (first, second, third)}) == 3


def test_a_number_that_is_written_otherwise_is_the_same() -> None:
    first = answer(
        request([candidate("a", relevance=1)], request_id="r", vitals={"pulse_bpm": 31}), lanes_policy()
    )
    again = request([candidate("a", relevance=1.0)], request_id="r", vitals={"pulse_bpm": 31.0})
    assert answer(again, lanes_policy(), first.session).composed.status == "duplicate"


def test_the_digest_of_a_request_is_over_rfc_8785_json_and_takes_its_content_by_a_digest() -> None:
    fields: dict[str, Any] = {
        "request_id": "r",
        "session_id": "s",
        "vitals": {"pulse_bpm": 31, "oxygen": 0.5},
    }
    decision = answer(request([], **fields), lanes_policy()).decision
    nothing = "sha256:" + sha256(b"[]").hexdigest()
    expected: dict[str, Any] = {
        "type": "context-request",
        "tenant": "default",
        "candidates": nothing,
        **fields,
    }
    assert decision.digests.input == "sha256:" + sha256(rfc8785.dumps(expected)).hexdigest()


def test_another_request_under_a_used_id_is_refused() -> None:
    first = answer(request([candidate("a")], request_id="r"), lanes_policy())
    with pytest.raises(EventError) as caught:
        answer(request([candidate("b")], request_id="r"), lanes_policy(), first.session)
    assert (caught.value.code, caught.value.pointer) == ("conflicting_request", "$.request_id")


def test_a_row_remembers_a_bounded_number_of_requests() -> None:
    session = EMPTY
    for number in range(RECENT_REQUESTS_MAX + 5):
        session = answer(request([], request_id=f"q{number}"), lanes_policy(), session).session
    assert len(session.recent) == RECENT_REQUESTS_MAX == 64
    assert session.recent[0].request_id == "q5"


def test_a_row_keeps_the_last_thousand_injected_ids() -> None:
    session = EMPTY
    for letter in "ba":
        injected = frozenset(f"{letter}{number:03}" for number in range(700))
        seen = SeenRequest(letter, "sha256:", letter)
        session = after_answer(session, Charge(0, DAY_S, 0, seen, injected, frozenset()))
    assert [injection.id for injection in session.injections] == [
        *(f"b{number:03}" for number in range(400, 700)),
        *(f"a{number:03}" for number in range(700)),
    ]


def test_a_row_remembers_the_thousand_ids_that_were_pushed_out_last() -> None:
    session = after_artifact(EMPTY, 0, DAY_S, (), ("a", "b"))
    session = after_artifact(session, 0, DAY_S, (), tuple(f"c{number}" for number in range(999)))
    assert session.evicted == ("b", *(f"c{number}" for number in range(999)))
    assert session.evicted_unlisted == 1


def test_a_session_restarts_at_its_expiry() -> None:
    policy = limited(idle_timeout_s=60)
    first = answer(request([candidate("a")], requested_at="2026-03-01T12:00:00Z"), policy)
    before = answer(request([], requested_at="2026-03-01T12:00:59.999999Z"), policy, first.session)
    assert before.session.prompts == 2
    after = answer(request([], requested_at="2026-03-01T12:01:00Z"), policy, first.session)
    assert (after.session.prompts, after.session.spent_tokens) == (1, 0)
    assert after.decision.session.before.prompts == 0


def test_a_late_request_does_not_move_the_last_event_back() -> None:
    policy = limited(idle_timeout_s=60)
    first = answer(request([]), policy)
    late = answer(request([], requested_at="2026-03-01T11:00:00Z"), policy, first.session)
    assert late.session.last_event_us == first.session.last_event_us
    assert late.session.prompts == 2


def test_a_backoff_of_five_selects_an_id_at_prompts_1_6_and_16() -> None:
    policy, session, injected = limited(backoff_prompts=5), EMPTY, []
    for prompt in range(1, 32):
        outcome = answer(request([candidate("a")]), policy, session)
        session = outcome.session
        if selected(outcome):
            injected.append(prompt)
        else:
            assert omitted(outcome) == {"a": "backoff"}
    assert injected == [1, 6, 16, 31]


def test_pinned_included_and_constraint_candidates_have_no_backoff() -> None:
    policy, session = limited(backoff_prompts=5), EMPTY
    limits = {
        "pinned": [{"match": {"type": "id", "value": "p"}, "reason": "r"}],
        "must_include": [{"match": {"type": "id", "value": "m"}, "reason": "r"}],
    }
    candidates = [candidate("p"), candidate("m"), candidate("c", kind="constraint"), candidate("x")]
    for _ in range(2):
        outcome = answer(request(candidates, constraints=limits), policy, session)
        session = outcome.session
    assert set(selected(outcome)) == {"p", "m", "c"}
    assert [(injection.id, injection.count) for injection in session.injections] == [
        ("x", 1),
        ("c", 2),
        ("m", 2),
        ("p", 2),
    ]


def test_exclusion_comes_before_backoff_and_backoff_before_an_empty_content() -> None:
    policy = limited(backoff_prompts=5)
    session = answer(request([candidate("a"), candidate("b")]), policy).session
    limits = {"must_exclude": [{"match": {"type": "id", "value": "a"}, "reason": "r"}]}
    again = answer(request([candidate("a"), candidate("b", content="")], constraints=limits), policy, session)
    assert omitted(again) == {"a": "excluded_by_policy", "b": "backoff"}


def test_the_pool_adds_candidates_and_the_requests_own_win() -> None:
    session = published(
        EMPTY, artifact(candidate("a", content="pool")), artifact(candidate("b", content="pool b"))
    )
    outcome = answer(request([candidate("a", content="own")]), lanes_policy(), session)
    assert sorted(selected(outcome)) == ["a", "b"]
    assert "own" in (outcome.composed.text or "")
    assert omitted(outcome) == {"a": "superseded"}
    assert outcome.decision.candidates_total == 3


def test_the_newest_publication_of_an_id_stays() -> None:
    session = published(EMPTY, *(artifact(candidate("a", content=text)) for text in ("old", "new")))
    assert answer(request([]), lanes_policy(), session).composed.text == "new"


def test_a_pool_artifact_without_required_fields_is_unsuitable() -> None:
    session = published(EMPTY, artifact({"id": "a", "content": "x"}), artifact(candidate("b", lane="nope")))
    assert omitted(answer(request([]), lanes_policy(), session)) == {"a": "unsuitable", "b": "unsuitable"}


def test_an_expired_artifact_is_named_once_and_leaves() -> None:
    session = published(EMPTY, artifact(candidate("a"), expires_at="2026-03-01T12:00:00Z"))
    first = answer(request([]), lanes_policy(), session)
    assert omitted(first) == {"a": "expired"}
    assert answer(request([]), lanes_policy(), first.session).decision.candidates_total == 0


@pytest.mark.parametrize("by", [{"id": "a"}, {"path": "./x.py", "kind": "recent_edit", "lane": "local"}])
def test_a_retraction_takes_an_artifact_back(by: dict[str, str]) -> None:
    session = published(
        EMPTY, artifact(candidate("a", path="x.py")), artifact(candidate("b")), retraction(**by)
    )
    assert selected(answer(request([]), lanes_policy(), session)) == ["b"]


def test_a_retraction_by_path_means_kind_lane_and_chunk_too() -> None:
    candidates: tuple[dict[str, Any], ...] = (
        {"path": "x.md"},
        {"path": "x.md", "kind": "rule_doc"},
        {"path": "x.md", "lane": "rules"},
        {"path": "x.md", "chunk_index": 1},
        {"path": "y.md"},
        {"id": "z"},
    )
    session = published(EMPTY, *(artifact(entry | {"content": "c"}) for entry in candidates))
    for left, one in zip((5, 4, 3, 2, 1), candidates, strict=False):
        session = published(session, retraction(**one))
        assert len(session.pool) == left
    assert [pooled.id for pooled in session.pool] == ["z"]


def test_a_retraction_without_an_id_is_refused() -> None:
    with pytest.raises(EventError) as caught:
        published(EMPTY, retraction(kind="recent_edit"))
    assert (caught.value.code, caught.value.pointer) == ("missing_field", "$.id")


def test_the_pools_bounds_push_out_the_oldest_and_the_next_decision_names_them() -> None:
    session = published(EMPTY, *(artifact(candidate(f"a{n:03}", 1)) for n in range(502)))
    first = answer(request([]), lanes_policy(), session)
    assert first.decision.evicted == ("a000", "a001")
    assert answer(request([]), lanes_policy(), first.session).decision.evicted == ()
    large = published(EMPTY, *(artifact(candidate(f"b{n}", content="é" * 200_000)) for n in range(3)))
    assert [pooled.id for pooled in large.pool] == ["b1", "b2"]
    assert large.evicted == ("b0",)


HOSTILE: dict[str, dict[str, Any]] = {
    "names": {"name": "\0" * 256},
    "tags": {"tags": ["\0" * 64] * 32},
    "paths": {"path": "/".join(["é" * 200] * 20)},
    "escapes": {"content": "\0" * 4_000, "summary": '"' * 4_000},
    "ids": {},
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_row_stays_within_a_mebibyte_and_names_evicted_artifacts_once(hostile: str) -> None:
    session, left = EMPTY, set[str]()
    named: list[str] = []
    for number in range(500):
        one = candidate(f"{number:03}" + "\0" * 253) | HOSTILE[hostile]
        session = published(session, artifact(one))
        left.add(one["id"])
        if number % 20 == 0:
            assert len(encode(session)) <= ROW_MAX_BYTES
        if number % 50 == 0:
            outcome = answer(request([]), lanes_policy(), session)
            named += outcome.decision.evicted
            session = outcome.session
    named += session.evicted
    assert len(named) == len(set(named)) > 0
    assert left == {pooled.id for pooled in session.pool} | set(named)
    assert len(encode(session)) > ROW_MAX_BYTES * 0.9


def filled(more: int = 0) -> Session:
    """Return a session with a row that is this many bytes over the limit."""
    sizes = {"a": 300_000, "b": 400_000, "c": 300_000}
    session = published(EMPTY, *(artifact(candidate(name, content="x" * sizes[name])) for name in sizes))
    spare = ROW_MAX_BYTES - len(encode(session)) + more
    return published(session, artifact(candidate("c", content="x" * (sizes["c"] + spare))))


def test_a_row_is_full_to_the_byte() -> None:
    full, fuller = filled(), filled(1)
    assert (len(encode(full)), [pooled.id for pooled in full.pool]) == (ROW_MAX_BYTES, ["a", "b", "c"])
    assert ([pooled.id for pooled in fuller.pool], fuller.evicted) == (["b", "c"], ("a",))


def test_a_prompt_that_lengthens_the_row_pushes_out_the_oldest_for_the_next_decision_to_name() -> None:
    first = answer(request([]), lanes_policy(), filled())
    assert first.decision.evicted == ()
    assert [pooled.id for pooled in first.session.pool] == ["b", "c"]
    assert answer(request([]), lanes_policy(), first.session).decision.evicted == ("a",)


def test_an_artifact_that_takes_too_much_of_the_row_is_refused_and_pushes_out_nothing() -> None:
    session = published(EMPTY, artifact(candidate("a")))
    with pytest.raises(EventError) as caught:
        published(session, artifact(candidate("b", content="\0" * 90_000)))
    assert (caught.value.code, caught.value.pointer) == ("too_large", "$.artifact")


def test_the_longest_ids_leave_room_for_the_largest_artifact() -> None:
    longest = [f"{number:04}" + "\0" * 252 for number in range(1_200)]
    seen = [SeenRequest("\0" * 128, "sha256:" + "0" * 64, "0" * 32)] * RECENT_REQUESTS_MAX
    charge = Charge(0, 0, 2**53, seen[0], frozenset(longest), frozenset())
    session = after_answer(replace(EMPTY, start_us=0, recent=tuple(seen)), charge)
    session = after_artifact(session, 0, 0, (), tuple(longest))
    for number in range(CARRIED_MAX):
        left = Carried(f"{number}" * 64, "sha256:" + "0" * 64, b"\0" * (CARRIED_MAX_BYTES // CARRIED_MAX))
        session = after_answer(session, replace(charge, injected=frozenset(), carried=left))
    session = after_artifact(session, 0, 0, (), tuple(longest))
    session = published(session, artifact(candidate("a", content="x" * 458_000)))
    assert [pooled.id for pooled in session.pool] == ["a"]
    assert session.evicted[-1] == longest[-1]
    assert session.injections[-1].id == longest[-1]
    assert len(session.evicted) + session.evicted_unlisted == 1_200
    assert len(session.carried) == CARRIED_MAX
    outcome = answer(request([]), lanes_policy(), session)
    assert outcome.decision.evicted_unlisted == session.evicted_unlisted > 0
    assert outcome.session.evicted_unlisted == 0


def test_a_thousand_ascii_ids_are_remembered_however_long() -> None:
    longest = frozenset(f"{number:04}" + "x" * 252 for number in range(1_000))
    charge = Charge(0, DAY_S, 0, SeenRequest("r", "", ""), longest, frozenset())
    assert len(after_answer(EMPTY, charge).injections) == 1_000


def test_an_artifact_at_expiry_finds_a_fresh_session() -> None:
    session = published(EMPTY, artifact(candidate("a"), "2026-03-01T12:00:00Z"))
    session = published(session, artifact(candidate("b"), "2026-03-02T12:00:00Z"))
    assert [pooled.id for pooled in session.pool] == ["b"]
    assert session.start_us == session.last_event_us


def test_a_duplicate_leaves_the_pool_alone() -> None:
    session = published(EMPTY, artifact(candidate("a"), expires_at="2026-03-01T12:30:00Z"))
    first = answer(request([], request_id="r"), lanes_policy(), session)
    again = answer(
        request([], request_id="r", requested_at="2026-03-01T13:00:00Z"), lanes_policy(), first.session
    )
    assert again.composed.status == "duplicate"
    assert again.session.pool == first.session.pool


def test_a_rows_digest_changes_with_all_that_it_holds() -> None:
    rows = [EMPTY, published(EMPTY, artifact(candidate("a")))]
    rows.append(published(rows[-1], artifact(candidate("a", content="b"))))
    rows.append(answer(request([]), lanes_policy(), rows[-1]).session)
    assert len({row.digest for row in rows}) == len(rows)


def test_an_omitted_candidates_entry_has_its_needed_tokens() -> None:
    outcome = answer(request([candidate("a", 50)], budget_tokens=30), limited())
    margin = entry_of(outcome, "a").margin
    assert margin
    assert (margin.needed, margin.left) == (50, 30)


def test_equal_backed_off_ids_are_one_backoff_and_duplicates() -> None:
    policy = limited(backoff_prompts=5)
    session = answer(request([candidate("a")]), policy).session
    again = answer(request([candidate("a"), candidate("a")]), policy, session)
    assert counted(again.decision.reasons) == {"backoff": 1, "duplicate": 1}


ROTATED_US = event_time_us(datetime(2026, 3, 1, 12, 30, tzinfo=UTC))
ROTATED = replace(
    ENGINE,
    secrets=Secrets(default=b"the secret after a rotation", previous=ENGINE.secrets, since_us=ROTATED_US),
)


def of_path(path: str, secret: bytes) -> str:
    return path_id(secret, path, "recent_edit", "local", 0)


def test_a_session_that_began_before_a_rotation_keeps_its_backoff_its_pool_and_its_answers() -> None:
    asked = request([candidate("", id=None, path="src/a.py")], request_id="first")
    policy = limited(backoff_prompts=5, idle_timeout_s=DAY_S)
    first = answer(asked, policy)
    pooled = publish(
        artifact(candidate("", id=None, path="src/b.py"), at="2026-03-01T12:29:00Z"),
        first.session,
        ENGINE,
        DAY_S,
    )
    later = "2026-03-01T13:00:00Z"
    again = answer(
        replace(asked, requested_at=datetime(2026, 3, 1, 13, tzinfo=UTC)), policy, pooled, engine=ROTATED
    )
    assert again.composed.duplicate_of == first.composed.decision_id
    second = answer(
        request([candidate("", id=None, path="src/a.py")], requested_at=later),
        policy,
        again.session,
        engine=ROTATED,
    )
    assert omitted(second)[of_path("src/a.py", SECRET)] == "backoff"
    assert selected(second) == [of_path("src/b.py", SECRET)]
    replaced = publish(
        artifact(candidate("", id=None, path="src/b.py"), at=later), second.session, ROTATED, DAY_S
    )
    assert [pooled.id for pooled in replaced.pool] == [of_path("src/b.py", SECRET)]


def test_new_and_restarted_sessions_use_the_new_secret_after_a_rotation() -> None:
    asked = request([candidate("", id=None, path="src/a.py")], requested_at="2026-03-01T12:30:00Z")
    new = [of_path("src/a.py", b"the secret after a rotation")]
    assert selected(answer(asked, lanes_policy(), engine=ROTATED)) == new
    old = answer(request([candidate("", id=None, path="src/a.py")]), limited(idle_timeout_s=60))
    assert selected(answer(asked, limited(idle_timeout_s=60), old.session, engine=ROTATED)) == new


def test_a_workspace_id_uses_the_sessions_secret_too() -> None:
    trigger = {"event": "file_saved", "workspace": "home"}
    before = answer(request(trigger=trigger), lanes_policy())
    kept = answer(
        request(trigger=trigger, requested_at="2026-03-01T13:00:00Z"),
        lanes_policy(),
        before.session,
        engine=ROTATED,
    )
    began = answer(
        request(trigger=trigger, requested_at="2026-03-01T13:00:00Z"), lanes_policy(), engine=ROTATED
    )
    assert before.decision.trigger == kept.decision.trigger != began.decision.trigger
    assert before.decision.fingerprint_key_id == kept.decision.fingerprint_key_id == key_id(SECRET)
    assert began.decision.fingerprint_key_id == key_id(b"the secret after a rotation")
