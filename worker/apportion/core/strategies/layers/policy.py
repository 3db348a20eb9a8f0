"""The policy of strategy `layers`: layers and their shares. The defaults are the source's own numbers."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from apportion.core.strategy_api.policy import (
    Count,
    Policy,
    PolicyTable,
    Problem,
    clashing_priorities,
    integer,
)

DEFAULT_TOTAL_TOKENS = 10_000
WHOLE_PERCENT = 100

Percent = Annotated[int, Field(ge=0, le=WHOLE_PERCENT)]
LayerName = Annotated[str, Field(pattern=r"^[^/\x00-\x1f\x7f-\x9f]{1,64}$")]
"""A name without slashes and control characters: it is a part of ids."""


class LayerPolicy(PolicyTable):
    """`[layers.NAME]`: the priority (0 is first), the share of the limit, an optional heading."""

    priority: Count
    share_percent: Percent
    heading: Annotated[str, Field(min_length=1)] | None = None


DEFAULT_LAYERS = {
    "project": LayerPolicy(priority=0, share_percent=40),
    "fabric": LayerPolicy(priority=1, share_percent=40),
    "prior_work": LayerPolicy(priority=2, share_percent=20),
}


class LayersPolicy(Policy):
    """A policy of strategy `layers`. Own `layers` replace the default ones."""

    own_backoff: ClassVar[bool] = False

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    layers: dict[LayerName, LayerPolicy] = Field(default=DEFAULT_LAYERS, min_length=1)

    @cached_property
    def in_order(self) -> tuple[tuple[str, LayerPolicy], ...]:
        """The layers by priority, which is their order in the text."""
        return tuple(sorted(self.layers.items(), key=lambda item: item[1].priority))

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield a problem for each repeated priority, and if the shares exceed 100 % together."""
        yield from super().cross_check(raw)
        given = raw.get("layers")
        layers = given if isinstance(given, Mapping) else {}
        yield from clashing_priorities("layers", "layer", layers)
        shares = sum(integer(layer, "share_percent") or 0 for layer in layers.values())
        if shares > WHOLE_PERCENT:
            yield Problem("layers", f"share_percent adds up to {shares}, above {WHOLE_PERCENT}")
