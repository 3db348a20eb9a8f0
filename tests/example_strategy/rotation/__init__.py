"""Strategy rotation: it selects candidates in turn, in the order of their ids.

A turn begins after the last selected id of the turn before, and wraps around. The policy's `most` and the
limit bound the number of selected candidates. A candidate that does not fit is skipped; the rest is tried.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from example_strategy.rotation.policy import MOST, RotationPolicy

from apportion.core.errors import EventError
from apportion.core.events import Candidate, ContextRequest
from apportion.core.results import Fidelity, Reason
from apportion.core.strategy_api.levers import Ceiling, Lever, Levers, Meaning
from apportion.core.strategy_api.strategy import CandidateNeeds, missing
from apportion.core.strategy_api.task import SessionPart, Task
from apportion.core.strategy_api.verdict import Bound, Verdict, Verdicts, mark_repeats

_NEEDS = ("content",)
_SEAM = "\n\n"


class _Piece(Verdict, gc=False):
    """A verdict, and the text that would be sent."""

    content: str = ""


class RotationStrategy:
    """Takes turns."""

    name = "rotation"
    policy_type = RotationPolicy
    reads = frozenset({"candidates", "constraints.must_exclude"})
    needs = frozenset({"candidates"})
    candidate_needs = CandidateNeeds(every=_NEEDS)
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.NO_ROOM: Meaning("as many as one turn takes stood before it", (Lever.CEILING,))
    }

    def levers(self, policy: RotationPolicy, group: str) -> Levers:
        """Return the number of selected candidates in one turn."""
        del group
        return Levers(Ceiling(("rotation", "most"), policy.rotation.most, MOST))

    def unsuitable(self, candidate: Candidate, policy: RotationPolicy) -> EventError | None:
        """Refuse a candidate without content."""
        del policy
        return missing(candidate, _NEEDS)

    def read_own(self, request: ContextRequest, session: SessionPart) -> SessionPart:
        """Return the session part, which has the last id of the turn before."""
        del request
        return session

    def compose(self, task: Task[RotationPolicy, SessionPart]) -> Verdicts:
        """Choose in turn; the ids' order, then the tie, end all ties."""
        pieces = _in_turn(task)
        if not task.limit_tokens:
            return Verdicts(verdicts=pieces, groups=())
        text, used_tokens, standing = "", 0, list[_Piece]()
        for piece in (piece for piece in pieces if piece.bound is None):
            if len(standing) == task.policy.rotation.most:
                piece.bound = Bound.ROOM
                continue
            longer = f"{text}{_SEAM}{piece.content}" if standing else piece.content
            tokens = task.counter.count(longer)
            if tokens > task.limit_tokens:
                piece.refuse(Bound.LIMIT, tokens - used_tokens, task.limit_tokens - used_tokens)
                continue
            piece.stand(Fidelity.FULL)
            text, used_tokens = longer, tokens
            standing.append(piece)
        return Verdicts(
            verdicts=pieces,
            groups=(),
            standing=standing,
            text=text,
            used_tokens=used_tokens,
            carried=standing[-1].id.encode() if standing else b"",
        )


def _in_turn(task: Task[RotationPolicy, SessionPart]) -> Sequence[_Piece]:
    """Return a piece for each candidate, beginning after the last of the turn before."""
    last = task.own.carried.decode()
    ordered = sorted(task.candidates, key=lambda one: (one.id <= last, one.id, one.tie))
    counts = task.count_contents(ordered) if task.limit_tokens else [0] * len(ordered)
    pieces = [
        _Piece(
            id=one.id,
            kind=one.kind,
            group="",
            constraint=one.constraint,
            bound=one.bound,
            tokens=tokens,
            cost=tokens,
            content=one.content,
        )
        for one, tokens in zip(ordered, counts, strict=True)
    ]
    mark_repeats(pieces)
    return pieces
