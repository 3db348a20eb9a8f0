"""Assertions on the candidates of a decision. A failure names the listed candidates and their reasons."""

from collections.abc import Iterator

from msgspec import UNSET

from apportion.core.results import ContextDecision, Entry, Fidelity, Outcome, Reason
from apportion.core.strategies import meaning_of
from apportion.decisions.replay.why import UnknownCandidateError, entries_of
from apportion.printable import printable

_LISTED_MAX = 40


def assert_selected(decision: ContextDecision, *ids: str, fidelity: Fidelity | str | None = None) -> None:
    """Assert that candidates are in the context, with this fidelity if it is given."""
    __tracebackhide__ = True
    for candidate_id in ids:
        entry = _entry(decision, candidate_id)
        if entry.outcome is not Outcome.SELECTED:
            raise _failed(decision, f"{candidate_id} was expected in the context, and was omitted")
        if fidelity is not None and entry.fidelity != fidelity:
            found = f"and is selected as {entry.fidelity}"
            raise _failed(decision, f"{candidate_id} was expected as {fidelity}, {found}")


def assert_omitted(decision: ContextDecision, *ids: str, reason: Reason | str | None = None) -> None:
    """Assert that candidates are listed and not in the context, for this reason if it is given."""
    __tracebackhide__ = True
    for candidate_id in ids:
        entry = _entry(decision, candidate_id)
        if entry.outcome is not Outcome.OMITTED:
            raise _failed(decision, f"{candidate_id} was expected to be omitted, and was selected")
        if reason is not None and entry.reason != reason:
            found = f"and was as {entry.reason}"
            raise _failed(decision, f"{candidate_id} was expected to be omitted as {reason}, {found}")


def _entry(decision: ContextDecision, candidate_id: str) -> Entry:
    __tracebackhide__ = True
    try:
        return entries_of(decision, candidate_id)[0]
    except UnknownCandidateError as error:
        raise _failed(decision, f"{candidate_id}: {error}") from None


def _failed(decision: ContextDecision, message: str) -> AssertionError:
    return AssertionError("\n".join(map(printable, [message, *_listing(decision)])))


def _listing(decision: ContextDecision) -> Iterator[str]:
    """Yield the decision's summary, its first 40 candidates by rank, and the number of the others."""
    yield decision.summary
    for entry in decision.candidates[:_LISTED_MAX]:
        yield f"  {entry.rank} {entry.id}: {_outcome(decision, entry)}"
    rest = decision.candidates_total - min(len(decision.candidates), _LISTED_MAX)
    if rest:
        yield f"  and {rest:,} more"


def _outcome(decision: ContextDecision, entry: Entry) -> str:
    """Return the outcome of a candidate, with the meaning of the reason and the margin."""
    if entry.reason is UNSET:
        return f"selected, {entry.fidelity}, {entry.tokens} tokens"
    meaning = meaning_of(decision.policy.strategy, entry.reason)
    words = f"omitted, {entry.reason}" + ("" if meaning is None else f" ({meaning.text})")
    margin = entry.margin
    return words if margin is None else f"{words}, {margin.needed} tokens needed, {margin.left} left"
