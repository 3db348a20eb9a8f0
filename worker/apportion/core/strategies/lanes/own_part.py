"""Inputs that only `lanes` reads; decisions record their key, so its form must not change."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import UNSET

from apportion.core.events import LaneRequirement, Opt, Vitals
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.core.strategy_api.task import OwnPart, SessionPart, Task, in_key


class LanesPart(OwnPart, frozen=True):
    """The own part of `lanes`; `query` holds the distinct terms of the request's query, sorted."""

    vitals: Opt[Vitals]
    lane_requirements: tuple[LaneRequirement, ...]
    session: SessionPart
    query: Opt[tuple[str, ...]] = UNSET

    def key(self) -> Sequence[Any]:
        """Return all fields; the two nulls replace layers and conversation, which were in older keys."""
        key = [in_key(self.vitals), self.lane_requirements, None, None, *self.session.key()]
        return key if self.query is UNSET else [*key, ("query", self.query)]


LanesTask: TypeAlias = Task[LanesPolicy, LanesPart]
