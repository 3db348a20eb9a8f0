"""Calibration: the row of a model, corrected by the counts that its provider reported.

A usage event belongs to the decision with its tenant, session and request id. Of a chat, a decision lists the
selected messages with role and tokens. So these parts can be told apart: the request, each message, each
result, the tokens of messages with calls or results (`json`), and the tokens of all others (`text`). A whole
request also has definitions (`json`), their number, and whether there are any. Of a chat, definitions that
every request has become part of the request. Media have no tokens of their own, and get the larger factor.
Only the newest 20,000 events are read.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import combinations
from math import ceil, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np
from duckdb import DuckDBPyConnection
from msgspec import Struct
from msgspec.structs import replace

from apportion.core.models import NO_FRAME, NO_SCALE, Frame, Model, Models, Scale
from apportion.core.strategy_api.policy import BY_MODEL, Policy
from apportion.core.text.scaled_counter import WHOLE
from apportion.decisions.analytics.queries import load_query
from apportion.decisions.analytics.source import naming_bad_tables

EVENTS_MIN = 50
_CONFIDENCE = 0.99
_HELD_OUT = 5
"""Every fifth event is not learned from, by the digest of its request id."""
_BATCH_ROWS = 500
_IN_CHAT = re.compile(r"system_prompt|new_message|messages/\d+")
_CHATS = ("conversation", "request")
_PARTS = ("request", "message", "result", "text", "json", "tool", "tools")
_SELECT_NAMES = "SELECT DISTINCT coalesce(gen_ai_request_model, gen_ai_response_model, '') FROM usage"


class CalibrationError(Exception):
    """The tables do not have enough events to learn from."""

    code = "too_few_events"
    exit_code = 2


class CountedRequest(Struct, frozen=True):
    """A request as the provider and the decision counted it; `parts` are numbers in the order of `_PARTS`."""

    request_id: str
    used_at: datetime
    provider_tokens: int
    decision_tokens: int
    parts: tuple[int, ...]

    @property
    def is_held_out(self) -> bool:
        """Return whether the request is not learned from."""
        return int.from_bytes(sha256(self.request_id.encode()).digest()[:8]) % _HELD_OUT == 0


class RowErrors(Struct, frozen=True):
    """The errors of a row's predictions for some events, relative to the provider's counts."""

    events: int
    under: int
    margin: float
    """The mean of the predictions' excess, as a share."""
    residuals: tuple[float, float, float]
    """The median, the 95th percentile and the maximum of the absolute excess, as shares."""


class Calibrated(Struct, frozen=True, kw_only=True):
    """A calibrated row, its fits before and after, and the numbers of events that were skipped, by reason."""

    row: Model
    newest: datetime
    learned: RowErrors
    held_out: RowErrors
    before: RowErrors
    """The decisions' own counts of all events."""
    skipped: Mapping[str, int]


def calibrate(
    tables: DuckDBPyConnection,
    models: Models,
    base: Model,
    policies: Iterable[Policy],
    quantile: float,
    advance: Callable[[int], None],
) -> Calibrated:
    """Return the row of a model with the frame and the scale that the usage events imply.

    `base` is the row of `models` under which the decisions were made. The coefficients have the least
    relative squares and are not negative. A common factor then covers the quantile of the learning events.
    If their errors are normal, it also leaves at most half of the allowed share under, with 99 % confidence.
    `advance` is called with the number of rows read.

    Raises:
        CalibrationError: fewer than 50 events can be used.
    """
    skipped: Counter[str] = Counter()
    with naming_bad_tables():
        found = tables.execute(_SELECT_NAMES).fetchall()
    names = [name for (name,) in found if models.find(name) == base]
    events = _read(tables, names, base, {policy.digest: policy for policy in policies}, skipped, advance)
    learning = [event for event in events if not event.is_held_out]
    held_out = [event for event in events if event.is_held_out]
    if len(events) < EVENTS_MIN or not held_out:
        reasons = "".join(f"; {number:,} {reason}" for reason, number in sorted(skipped.items()))
        text = f"{len(events)} usage events of {base.name} have a decision, {EVENTS_MIN} are needed{reasons}"
        raise CalibrationError(text)
    newest = max(event.used_at for event in events).astimezone(UTC)
    row = _calibrated(base, _learn(learning, quantile), len(events), newest)
    before = np.array([event.decision_tokens for event in events])
    return Calibrated(
        row=row,
        newest=newest,
        learned=_fit(learning, _predicted(row, learning)),
        held_out=_fit(held_out, _predicted(row, held_out)),
        before=_fit(events, before),
        skipped=skipped,
    )


def _read(
    tables: DuckDBPyConnection,
    names: Sequence[str],
    base: Model,
    policies: Mapping[str, Policy],
    skipped: Counter[str],
    advance: Callable[[int], None],
) -> list[CountedRequest]:
    events: list[CountedRequest] = []
    with naming_bad_tables():
        rows = tables.execute(load_query("calibration").sql, {"names": names})
        assert rows.description is not None
        columns, done = [column[0] for column in rows.description], 0
        while batch := rows.fetchmany(_BATCH_ROWS):
            for values in batch:
                row = dict(zip(columns, values, strict=True))
                policy = policies.get(row["policy_digest"])
                reason = _unusable(row, base, policy)
                if policy is None or reason:
                    skipped[reason] += 1
                    continue
                numbers = row["input_tokens"], row["tokens_used"]
                parts = _parts(row, base, policy)
                events.append(CountedRequest(row["request_id"], row["used_at"], *numbers, parts))
            done += len(batch)
            advance(done)
    return events


def _unusable(row: Mapping[str, Any], base: Model, policy: Policy | None) -> str:
    """Return the reason for which a decision is skipped, or an empty text."""
    if row["counter_name"] != base.counter:
        return "decisions by another counter"
    if policy is None:
        return "decisions by policies that are not in the settings"
    if _is_by_model(row, policy) and row["model_digest"] != base.digest:
        return "decisions by another row of the model"
    listed = {part["id"] for part in row["items"] or ()}
    if row["policy_strategy"] in _CHATS and "new_message" not in listed:
        return "decisions without candidates (decision_detail)"
    return ""


def _is_by_model(row: Mapping[str, Any], policy: Policy) -> bool:
    return policy.counter == BY_MODEL or (policy.by_model and row["model_digest"] is not None)


def _parts(row: Mapping[str, Any], base: Model, policy: Any) -> tuple[int, ...]:
    """Return the parts of a decision, in the counter's tokens without frame and scale."""
    is_by_model = _is_by_model(row, policy)
    frame, scale = (base.frame, base.scale or NO_SCALE) if is_by_model else (NO_FRAME, NO_SCALE)
    if row["policy_strategy"] not in _CHATS:  # a text is sent as one message
        fixed = frame.request + frame.message if is_by_model and base.scale else 0
        return 1, 1, 0, _unscaled(row["tokens_used"] - fixed, scale.text), 0, 0, 0
    if is_whole := row["policy_strategy"] == "request":
        policy = policy.of_history
    overhead = frame.message or policy.conversation.message_overhead_tokens
    items = [item for item in row["items"] if _IN_CHAT.fullmatch(item["id"])]
    tools = [item["tokens"] for item in row["items"] if item["kind"] == "tool" and item not in items]
    tools_tokens = sum(tools) + (frame.tools if tools else 0)
    rest = row["tokens_used"] - sum([item["tokens"] for item in items]) - tools_tokens if is_whole else 0
    parts = {part["id"]: part for part in sorted(items, key=lambda part: _place(part["id"]))}
    messages, has_prompt = [*parts.values()], "system_prompt" in parts
    text = _unscaled(rest - overhead, scale.text)
    json = sum([_unscaled(tokens - frame.tool, scale.json) for tokens in tools])
    if has_prompt:
        text += _unscaled(messages.pop(0)["tokens"], scale.text)
    parts["new_message"]["tokens"] -= frame.request + frame.message * has_prompt
    # A call's message is directly before its results. Its calls are as many as its results.
    results = 0
    for message in reversed(messages):
        tokens = message["tokens"] - overhead
        if message["kind"] == "tool":
            json += _unscaled(tokens - frame.result, scale.json)
            results += 1
            continue
        if message["kind"] == "assistant" and results:
            json += _unscaled(tokens - frame.call * results, scale.json)
        else:
            text += _unscaled(tokens, scale.text)
        results = 0
    number = sum(message["kind"] == "tool" for message in messages)
    return 1, len(parts) + (rest > 0), number, text, json, len(tools), int(bool(tools))


def _place(name: str) -> int:
    """Return the place of a candidate of a chat in its request."""
    head, _, index = name.partition("/")
    return int(index) if index else -1 if head == "system_prompt" else 1 << 62


def _unscaled(tokens: int, permille: int) -> int:
    return max(tokens, 0) * WHOLE // permille


def _learn(events: Sequence[CountedRequest], quantile: float) -> Sequence[float]:
    """Return a coefficient for each part: relative least squares, not negative, with the safety factor."""
    provider = np.array([event.provider_tokens for event in events], dtype=float)
    matrix = np.array([event.parts for event in events], dtype=float) / provider[:, None]
    best, least = np.zeros(len(_PARTS)), float("inf")
    for size in range(1, len(_PARTS) + 1):  # few parts: the best of all subsets without a negative number
        for chosen in combinations(range(len(_PARTS)), size):
            own, *_ = np.linalg.lstsq(matrix[:, chosen], np.ones(len(events)), rcond=None)
            loss = float(np.sum((matrix[:, chosen] @ own - 1) ** 2))
            if np.all(own >= 0) and loss < least - 1e-12:
                best, least = np.zeros(len(_PARTS)), loss
                best[list(chosen)] = own
    ratios = np.sort(1 / np.maximum(matrix @ best, 1e-9))
    covered = float(ratios[ceil(len(ratios) * quantile) - 1])
    aim, certain = NormalDist().inv_cdf((1 + quantile) / 2), NormalDist().inv_cdf(_CONFIDENCE)
    deviations = aim + certain * sqrt((1 + aim**2 / 2) / len(ratios))
    factor = max(covered, fmean(ratios) + deviations * stdev(ratios))
    return [float(number) * factor for number in best]


def _calibrated(base: Model, numbers: Sequence[float], events: int, newest: datetime) -> Model:
    request, message, result, text, json, tool, tools = numbers
    larger = max(text, json)  # for media, and for a kind without events
    scale = [min(max(ceil(WHOLE * (factor or larger)), 100), 10_000) for factor in (text, json, larger)]
    frame = Frame(
        request=ceil(request),
        message=max(ceil(message), 1),  # 0 is unknown
        result=ceil(result),
        tool=ceil(tool) or base.frame.tool,
        tools=ceil(tools) or base.frame.tools,
    )
    source = f"calibrated on {events} events, {newest:%Y-%m-%d}"
    corrected = Scale(text=scale[0], json=scale[1], media=scale[2])
    return replace(base, frame=frame, scale=corrected, source=source, checked=newest.date())


def _predicted(row: Model, events: Sequence[CountedRequest]) -> Any:
    frame, scale = row.frame, row.scale or NO_SCALE
    weights = [frame.request, frame.message, frame.result, scale.text / WHOLE, scale.json / WHOLE]
    weights += [frame.tool, frame.tools]
    return np.array([event.parts for event in events], dtype=float) @ np.array(weights)


def _fit(events: Sequence[CountedRequest], predicted: Any) -> RowErrors:
    excess = predicted / np.array([event.provider_tokens for event in events]) - 1
    middle, high, most = (float(number) for number in np.quantile(abs(excess), (0.5, 0.95, 1)))
    return RowErrors(len(events), int(np.sum(excess < 0)), float(np.mean(excess)), (middle, high, most))
