"""Metrics added by a batch, and the bound on the number of series."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.composing import answer, candidate, lanes_policy, request

from apportion.core.compose import Answered
from apportion.core.errors import ErrorCode
from apportion.shell.operations.metrics import METRICS, MetricKind
from apportion.shell.operations.numbers import OTHER, POLICIES_MAX, Numbers
from apportion.shell.operations.tally import BatchTally

NOW_S = 1_772_366_400.0
MANY = 100_000


def scraped(numbers: Numbers) -> dict[tuple[str, ...], float]:
    """Return each sample's value by its name and its labels' values."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(numbers)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def outcome() -> Answered:
    """An answer with two candidates in it, and one left out."""
    ones = [candidate("a", 20), candidate("b", 30), candidate("c", 20, content="")]
    return answer(request(ones), policy=lanes_policy())


def count(numbers: Numbers, tally: BatchTally) -> None:
    numbers.batch(tally, NOW_S, events=1, size_bytes=100, work_s=0.01, write_s=0.02)


def test_an_answer_is_counted_with_its_candidates_and_tokens() -> None:
    tally, numbers, made = BatchTally(), Numbers(), outcome()
    decision = made.decision
    tally.answered(made, 0.0003)
    tally.answered(replace(made, cache_hit=True), 0.0003)
    tally.refused[ErrorCode.UNKNOWN_LANE] += 3
    count(numbers, tally)
    values = scraped(numbers)
    assert values["apportion_decisions_total", decision.policy.name, "composed"] == 2
    assert values["apportion_candidates_total", "selected", ""] == 2 * decision.candidates_selected > 0
    for reason in decision.reasons:
        assert values["apportion_candidates_total", "omitted", reason.reason] == 2 * reason.count
    assert values["apportion_tokens_used_total",] == 2 * decision.tokens.used > 0
    assert values["apportion_tokens_limit_total",] == 2 * decision.tokens.limit
    assert values["apportion_tokens_offered_total",] == 2 * sum(group.available for group in decision.groups)
    assert values["apportion_composition_cache_total", "hit"] == 1
    assert values["apportion_composition_cache_total", "miss"] == 1
    assert values["apportion_dead_letters_total", "unknown_lane"] == 3
    assert values["apportion_compose_seconds_count",] == 2
    assert values["apportion_compose_seconds_bucket", "0.00025"] == 0
    assert values["apportion_compose_seconds_bucket", "0.0005"] == 2
    assert values["apportion_budget_utilisation_sum",] == 2 * decision.tokens.used / decision.tokens.limit


def test_end_to_end_is_from_the_records_time_and_never_negative() -> None:
    tally, numbers = BatchTally(), Numbers()
    tally.recorded_ms += [int(NOW_S * 1000) - 2_000, int(NOW_S * 1000) + 60_000]
    count(numbers, tally)
    values = scraped(numbers)
    assert values["apportion_end_to_end_seconds_sum",] == 2
    assert values["apportion_end_to_end_seconds_bucket", "0.005"] == 1
    assert values["apportion_end_to_end_seconds_bucket", "2.5"] == 2


def test_every_counter_exists_from_the_start() -> None:
    """The rate of an absent series is empty, not zero: an alert on it would not fire."""
    values = scraped(Numbers())
    counters = [metric for metric in METRICS if metric.kind is MetricKind.COUNTER and not metric.labels]
    assert all(values[counter.name,] == 0 for counter in counters)
    assert {key[1] for key in values if key[0] == "apportion_dead_letters_total"} == set(ErrorCode)


def told_of(values: dict[tuple[str, ...], float], name: str) -> dict[str, float]:
    """Return the values of one metric by its first label."""
    return {key[1]: value for key, value in values.items() if key[0] == name}


def test_very_many_policies_and_tenants_make_no_more_series() -> None:
    numbers = Numbers(tenants_max=3)
    tally = BatchTally()
    for each in range(MANY):
        tally.decisions[f"policy-{each}", "composed"] = 1
        tally.tenants[f"tenant-{each}"] = (1, 5)
    count(numbers, tally)
    values = scraped(numbers)
    policies = told_of(values, "apportion_decisions_total")
    assert len(policies) == POLICIES_MAX + 1
    assert policies[OTHER] == MANY - POLICIES_MAX
    tenants = told_of(values, "apportion_tenant_tokens_used_total")
    assert tenants == {"tenant-0": 5, "tenant-1": 5, "tenant-2": 5, OTHER: 5 * (MANY - 3)}


def test_very_many_sessions_make_no_series_at_all() -> None:
    numbers, made = Numbers(), outcome()
    series = set()
    for number in (0, MANY):
        tally = BatchTally()
        for each in range(number, number + MANY // 2):
            decision = replace(made.decision, session_id=f"session-{each}")
            tally.answered(replace(made, decision=decision), 0.0001)
        count(numbers, tally)
        series.add(frozenset(scraped(numbers)))
    assert len(series) == 1
    assert not any("session-" in label for [one] in [series] for key in one for label in key)


def test_tenants_are_named_only_on_request() -> None:
    tally, numbers = BatchTally(), Numbers()
    tally.answered(outcome(), 0.0001)
    count(numbers, tally)
    assert [key for key in scraped(numbers) if "tenant" in key[0]] == []


def test_no_metric_has_a_session_or_an_id_as_a_label() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    assert labels == {
        "policy",
        "status",
        "outcome",
        "reason",
        "tenant",
        "result",
        "code",
        "partition",
        "engine_version",
        "part",
    }


def test_partitions_of_another_worker_leave_the_metrics() -> None:
    numbers = Numbers()
    [lag] = [metric for metric in METRICS if metric.name == "apportion_lag_events"]
    numbers.put_all(lag, {0: 3, 1: 5})
    numbers.put_all(lag, {1: 4})
    assert told_of(scraped(numbers), lag.name) == {"1": 4}
