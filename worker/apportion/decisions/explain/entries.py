"""The entries of one candidate in a decision, for commands and assertions that name a candidate by id."""

from msgspec import UNSET

from apportion.core.results import ContextDecision, Detail, Entry, Reason
from apportion.decisions.replay.why import can_help


class UnknownCandidateError(Exception):
    """The decision does not list a candidate with this id."""

    code = "unknown_candidate"
    exit_code = 2


def entries_of(decision: ContextDecision, candidate_id: str) -> list[Entry]:
    """Return the entries of an id, duplicates and superseded ones last, or raise UnknownCandidateError."""
    entries = [entry for entry in decision.candidates if entry.id == candidate_id]
    if not entries:
        unlisted = sum(omitted.count for omitted in decision.unlisted)
        setting = "decision_omitted_max" if decision.detail is Detail.FULL else "decision_detail"
        hint = f"; {unlisted:,} that were left out are not listed ({setting})" if unlisted else ""
        raise UnknownCandidateError(f"the decision lists no candidate with this id{hint}")
    return sorted(entries, key=lambda entry: entry.reason in {Reason.DUPLICATE, Reason.SUPERSEDED})


def is_open(decision: ContextDecision, entry: Entry) -> bool:
    """Return whether a change may admit an omitted candidate, so that a search for it makes sense."""
    return entry.reason is not UNSET and can_help(decision.policy.strategy, entry.reason)
