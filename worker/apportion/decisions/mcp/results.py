"""Typed results of the tools, which clients get as structured content; each list has a bound."""

from datetime import datetime

from pydantic import BaseModel

from apportion.decisions.replay.why import Searched


class DecisionSummary(BaseModel):
    """A decision without its candidates. `reasons` counts the omitted candidates."""

    decision_id: str
    tenant: str
    session_id: str
    request_id: str
    requested_at: datetime
    policy: str
    policy_version: str
    strategy: str
    status: str
    limit_tokens: int
    used_tokens: int
    candidates_total: int
    candidates_selected: int
    reasons: dict[str, int]
    summary: str


class FoundDecisions(BaseModel):
    """Decisions, newest first. With `has_more` there are older ones, which further filters find."""

    decisions: list[DecisionSummary]
    has_more: bool


class DecisionsSum(BaseModel):
    """A sum over decisions. By reason, only `omitted` candidates are counted."""

    name: str
    decisions: int
    omitted: int
    selected: int | None = None
    used_tokens: int | None = None


class SummedDecisions(BaseModel):
    """Sums over the matching decisions; with `has_more` over the newest of them."""

    decisions: int
    has_more: bool
    sums: list[DecisionsSum]
    sums_left_out: int


class ExplainedGroup(BaseModel):
    """A lane, category or other group, in tokens and candidates; `max_tokens` is null without a ceiling."""

    name: str
    min_tokens: int
    max_tokens: int | None
    used_tokens: int
    available_tokens: int
    selected: int
    rejected: int


class ExplainedCandidate(BaseModel):
    """A candidate of a decision. `meaning` is the reason in words; scores are in thousandths.

    `needed_tokens` and `left_tokens` are of the time when it was considered last; with `more_tokens` of that
    bound alone it would have been selected.
    """

    id: str
    kind: str
    group: str
    rank: int
    outcome: str
    score: int | str | None
    tokens: int | None
    fidelity: str | None
    reason: str | None
    meaning: str | None
    needed_tokens: int | None
    left_tokens: int | None
    more_tokens: int | None
    constraint: str | None
    covered_by: str | None
    superseded_by: str | None


class SearchedChange(BaseModel):
    """The smallest change of one kind that admits the candidate: of `key`, from `now` to `needed`.

    `needed` is null if none was found. Values are tokens, or thousandths of a score; of a pin 0 and 1.
    `displaced` are the first candidates that it removes from the context.
    """

    key: str
    now: int
    needed: int | None
    ended: Searched
    displaced: list[str]
    displaced_total: int


class ExplainedDecision(BaseModel):
    """A decision with its first candidates by rank, or with the entries of the candidate that was asked for.

    `changes` are null if no change was searched; `not_searched` says why.
    """

    decision: DecisionSummary
    groups: list[ExplainedGroup]
    candidates: list[ExplainedCandidate]
    candidates_left_out: int
    changes: list[SearchedChange] | None = None
    not_searched: str | None = None


class ReplayedDecision(BaseModel):
    """The effect of a change on one decision; of each list the first ids."""

    decision_id: str
    status_before: str
    status_after: str
    used_tokens_before: int
    used_tokens_after: int
    gained: list[str]
    lost: list[str]
    effect: str


class RefusedRequest(BaseModel):
    """A decision for which the request is refused under the change."""

    decision_id: str
    code: str
    message: str
    place: str


class ReplayedChanges(BaseModel):
    """The effects of a change on all recorded decisions: sums, and the decisions that change most.

    `unverifiable` decisions are not composed as they were recorded, and are in no other figure.
    """

    replayed: int
    changed: int
    gained: int
    lost: int
    shrunk: int
    grown: int
    reordered: int
    used_tokens_before: int
    used_tokens_after: int
    statuses: dict[str, int]
    refused: dict[str, int]
    unverifiable: dict[str, int]
    largest: list[ReplayedDecision]
    first_refused: list[RefusedRequest]
