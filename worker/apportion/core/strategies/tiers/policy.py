"""The policy of strategy `tiers`: thresholds and demotion. The defaults are the source's own numbers."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from apportion.core.events import MAX_INTEGER
from apportion.core.strategy_api.policy import Count, Policy, PolicyTable


class Demotion(StrEnum):
    """Order of demotion: each item all the way down before the next, or all items one tier in turn."""

    LOWEST_FIRST = "lowest_first"
    ROUND_ROBIN = "round_robin"


Threshold = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class TiersTable(PolicyTable):
    """`[tiers]`: the least activation of each tier, the order of demotion, the code points of a summary."""

    full: Threshold = 0.7
    summary: Threshold = 0.3
    name: Threshold = 0.1
    demotion: Demotion = Field(default=Demotion.LOWEST_FIRST, strict=False)
    summary_characters: Annotated[int, Field(ge=1, le=MAX_INTEGER)] = 120

    @model_validator(mode="after")
    def _thresholds_fall(self) -> Self:
        if not self.name <= self.summary <= self.full:
            raise ValueError("name must not be above summary, nor summary above full")
        return self


class TiersPolicy(Policy):
    """A policy of strategy `tiers`."""

    budget_tokens: Count = 2_000
    tiers: TiersTable = TiersTable()
