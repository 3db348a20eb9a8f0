"""Decisions in less detail: dropped fields, kept fields, and the digest over the full record."""

import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from msgspec.structs import replace
from support.composing import answer, candidate, counted, lanes_policy, request
from support.recording import altered, asked, recorded, verified

from apportion.core.detail import in_detail
from apportion.core.results import ContextDecision, Detail, Run
from apportion.core.wire.codec import encode

LESS = (Detail.SELECTED, Detail.SUMMARY)
ONES = [candidate("a", 20), candidate("b", 30), candidate("c", content="")]
FULL = answer(request(ONES, budget_tokens=30), lanes_policy()).decision


def told(decision: ContextDecision) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(encode(decision))
    return fields


def test_in_full_it_is_the_decision_itself() -> None:
    assert in_detail(FULL, Detail.FULL) is FULL
    assert not told(FULL).keys() & {"detail"}


def test_detail_selected_drops_omitted_candidates_and_counts_them() -> None:
    less = in_detail(FULL, Detail.SELECTED)
    assert [entry.id for entry in less.candidates] == ["a"]
    assert counted(less.unlisted) == counted(FULL.reasons) == {"budget_exceeded": 1, "no_content": 1}


def test_a_summary_has_no_candidate() -> None:
    less = told(in_detail(FULL, Detail.SUMMARY))
    assert "candidates" not in less
    assert (less["candidates_total"], less["candidates_selected"]) == (3, 1)


def test_a_summary_counts_the_artifacts_that_were_pushed_out() -> None:
    full = replace(FULL, evicted=("old", "older"), evicted_unlisted=5)
    assert told(in_detail(full, Detail.SELECTED))["evicted"] == ["old", "older"]
    less = told(in_detail(full, Detail.SUMMARY))
    assert "evicted" not in less
    assert less["evicted_unlisted"] == 7


@pytest.mark.parametrize("detail", LESS)
def test_nothing_else_is_left_out(detail: Detail) -> None:
    full, less = told(FULL), told(in_detail(FULL, detail))
    assert less.pop("detail") == detail
    del less["digests"]["record"]
    for fields in (full, less):
        for name in ("candidates", "unlisted"):
            fields.pop(name, None)
    assert less == full


@pytest.mark.parametrize("detail", LESS)
def test_its_digest_is_over_the_canonical_json_of_the_full_record_and_the_detail(detail: Detail) -> None:
    ran = replace(FULL, run=Run(worker="w"))
    canonical = rfc8785.dumps(told(FULL) | {"detail": str(detail)})
    assert in_detail(ran, detail).digests.record == f"sha256:{sha256(canonical).hexdigest()}"
    assert in_detail(ran, detail).run == Run(worker="w")


@pytest.mark.parametrize("detail", LESS)
def test_a_log_in_less_detail_is_verified(detail: Detail) -> None:
    recording = recorded([asked("r1"), asked("r1"), asked("r2")], detail=detail)
    assert all(json.loads(line)["detail"] == detail for line in recording.decisions)
    assert verified(recording).summary.verified == 3


@pytest.mark.parametrize("detail", LESS)
def test_the_digest_covers_the_dropped_details(detail: Detail) -> None:
    recording = recorded([asked("r1")], detail=detail)
    [line] = recording.decisions
    edited = altered(line, "digests", "record", value="sha256:" + "0" * 64)
    assert verified(recording, decisions=[edited]).findings[0].place == "$.digests.record"


def test_a_record_is_not_accepted_in_another_detail() -> None:
    nothing = recorded([asked("r1", candidates=[])], detail=Detail.SELECTED)
    [line] = nothing.decisions
    edited = altered(line, "detail", value="summary")
    assert verified(nothing, decisions=[edited]).summary.differences == 1
