"""Shared parts of tests of hooks: recorded and verified sessions, and texts of a chat."""

from io import BytesIO

from apportion import COUNTERS, ENGINE, Fitted, LocalSessions, builtin_policies
from apportion.core.policies.catalogue import Catalogue
from apportion.integrations.fitter import FitterSettings
from support.recording import Recording, verified

LIMIT_TOKENS = 600
LONG = "word " * 150
QUESTIONS = [f"Question {turn}? {'It matters. ' * 12}" for turn in range(12)]


def count(texts: list[str]) -> int:
    """Return the tokens of texts, as policy `fit` counts them."""
    return sum(COUNTERS["o200k_base"].count(text) for text in texts)


class Recorder:
    """Sessions in this process, and everything that a hook had them compose."""

    def __init__(self) -> None:
        """Start without sessions."""
        self.fitted: list[Fitted] = []
        self._events, self._decisions = BytesIO(), BytesIO()
        self._sessions = LocalSessions(events=self._events, decisions=self._decisions)

    @property
    def settings(self) -> FitterSettings:
        """The settings of a hook that is recorded."""
        return {"client": self._sessions, "on_fitted": self.fitted.append}

    @property
    def sessions(self) -> list[str]:
        """The sessions of the decisions, in order."""
        return [fitted.decision.session_id for fitted in self.fitted]

    def require_verified(self) -> None:
        """Require decisions, each within its limit, that composing again confirms."""
        assert self.fitted
        assert all(0 < fitted.used_tokens <= fitted.limit_tokens for fitted in self.fitted)
        require_verified(self._events.getvalue(), self._decisions.getvalue(), len(self.fitted))


def require_verified(events: bytes, decisions: bytes, expected: int) -> None:
    """Require a number of decisions, as lines, that composing the lines of events again confirms."""
    found = verified(
        Recording(tuple(events.splitlines()), tuple(decisions.splitlines()), ()),
        engine=ENGINE,
        catalogue=Catalogue(builtin_policies()),
    )
    assert (found.summary.verified, found.findings) == (expected, ())
