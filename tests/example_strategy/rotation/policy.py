"""The rotation policy: `[rotation]` and the fields of every policy."""

from functools import cached_property
from typing import Annotated

from pydantic import Field

from apportion.core.strategy_api.policy import Policy, PolicyTable

MOST = 1_000
"""The most candidates that may be selected in one turn."""
_REMEMBERED_MAX = 64
_REMEMBERED_S = 300


class RotationTable(PolicyTable):
    """`[rotation]`: the number of selected candidates in one turn."""

    most: Annotated[int, Field(ge=1, le=MOST)] = 3


class RotationPolicy(Policy):
    """A policy of strategy rotation."""

    rotation: RotationTable = RotationTable()

    @cached_property
    def cache_entries_max(self) -> int:
        """As many as a test asks for, and more."""
        return _REMEMBERED_MAX

    @cached_property
    def cache_ttl_s(self) -> int:
        """Five minutes."""
        return _REMEMBERED_S
