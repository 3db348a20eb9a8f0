"""Invariants of a lanes text over its limit, with every counter, including a jumping one."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, engine_with
from support.composing import ENGINE, answer, lanes_policy, request
from support.drawn_lanes import LANES, candidates, constraints, tables
from support.expectations import assert_accounted

from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.memory import Memory
from apportion.core.results import Entry, Fidelity, Reason, Status
from apportion.core.shrink import SHRINK_BY_KIND, ladder
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOTAL = 10_000

counting = st.sampled_from(
    [(engine_with(Jumpy()), CounterName.CHARS4), *((ENGINE, name) for name in CounterName)]
)
limits = {"constraints": constraints, "budget_tokens": st.integers(1, 120)}


def is_protected(entry: Entry) -> bool:
    return (entry.constraint or "").startswith(("pinned", "must_include"))


def in_shrinking_order(outcome: Answered, table: dict[str, Any]) -> list[Entry]:
    """Return the candidates selected before fitting, in the order of their removal."""
    rendered = [
        entry
        for entry in outcome.decision.candidates
        if entry.fidelity or entry.reason is Reason.DROPPED_AFTER_RENDER
    ]
    return sorted(rendered, key=lambda entry: (table["lanes"][entry.group]["priority"], entry.rank))[::-1]


def smallest(candidate: dict[str, Any], table: dict[str, Any], count: Callable[[str], int]) -> int:
    """Return the cost of the smallest rendered form of a candidate."""
    template = table.get("render", {}).get("template", "{content}")
    label = candidate.get("source_label", "")

    def rendered(form: str) -> int:
        labelled = f"{label}\n{form}" if label and "{source_label}" not in template else form
        fields = {name: candidate[name] for name in ("id", "kind", "lane")}
        return count(template.format(content=labelled, source_label=label, **fields))

    steps = ladder(
        SHRINK_BY_KIND[candidate["kind"]], candidate["content"], rendered, None, candidate.get("path")
    )
    return rendered(candidate["content"]) if steps is None else steps.smallest().tokens


def fitted(
    candidates: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    counting: tuple[Engine, CounterName],
) -> Answered:
    """Compose these candidates under a policy with that table, counted so."""
    engine, counter = counting
    policy = lanes_policy(counter=counter, budget_tokens=TOTAL, **table)
    return answer(request(candidates, **asked), policy, engine=engine)


@SETTINGS
@given(candidates(), st.fixed_dictionaries(limits), tables(), counting)
def test_the_count_of_the_output_never_passes_the_limit(
    candidates: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    counting: tuple[Engine, CounterName],
) -> None:
    engine, counter = counting
    outcome = fitted(candidates, asked, table, counting)
    used = engine.counters[counter].count(outcome.composed.text or "")
    assert used == outcome.composed.tokens.used <= asked["budget_tokens"]
    assert_accounted(outcome, len(candidates))
    assert {group.name for group in outcome.decision.groups} == set(LANES)
    assert sum(group.selected for group in outcome.decision.groups) == len(outcome.composed.items)


@SETTINGS
@given(candidates(), st.fixed_dictionaries(limits), tables(), counting)
def test_protected_candidates_are_in_every_composed_answer(
    candidates: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    counting: tuple[Engine, CounterName],
) -> None:
    outcome = fitted(candidates, asked, table, counting)
    reasons = {entry.reason for entry in outcome.decision.candidates if is_protected(entry)}
    withheld = Reason.INFEASIBLE if outcome.composed.status is Status.INFEASIBLE else None
    assert {reason for reason in reasons if reason} <= {Reason.DUPLICATE, Reason.NO_CONTENT, withheld}
    if withheld:
        assert any(entry.reason is withheld and is_protected(entry) for entry in outcome.decision.candidates)
        assert not outcome.composed.items


@SETTINGS
@given(candidates(), st.fixed_dictionaries(limits), tables(), counting)
def test_artifacts_go_from_the_last_lane_to_the_first_the_lowest_score_first(
    candidates: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    counting: tuple[Engine, CounterName],
) -> None:
    engine, counter = counting
    outcome = fitted(candidates, asked, table, counting)
    order = in_shrinking_order(outcome, table)
    free = [entry.reason is Reason.DROPPED_AFTER_RENDER for entry in order if not is_protected(entry)]
    assert free == sorted(free, reverse=True)
    raw = {candidate["id"]: candidate for candidate in candidates}
    last = max((place for place, entry in enumerate(order) if entry.fidelity is Fidelity.SHRUNK), default=0)
    count = engine.counters[counter].count
    for entry in order[:last]:
        if entry.fidelity is Fidelity.FULL and (entry.tokens or 0) > table["shrink"]["floor_tokens"]:
            assert smallest(raw[entry.id], table, count) >= (entry.tokens or 0)


@SETTINGS
@given(candidates(), st.fixed_dictionaries(limits), tables(), counting, st.randoms(use_true_random=False))
def test_neither_order_nor_memory_changes_a_byte(
    candidates: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    counting: tuple[Engine, CounterName],
    shuffler: Any,
) -> None:
    engine, counter = counting
    policy = lanes_policy(counter=counter, budget_tokens=TOTAL, **table)
    shuffled, memory = list(candidates), Memory()
    shuffler.shuffle(shuffled)
    told = {
        (encode(outcome.composed), encode(outcome.decision))
        for outcome in (
            answer(request(each, request_id="same", **asked), policy, engine=engine, memory=kept)
            for each, kept in ((candidates, None), (shuffled, memory), (candidates, memory), (shuffled, None))
        )
    }
    assert len(told) == 1
