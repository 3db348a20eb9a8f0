"""Engine: everything that composing needs besides its input. The shell creates it once."""

from collections.abc import Mapping

from msgspec import Struct

from apportion.core.identity import Secrets
from apportion.core.text.tokens import TokenCounter


class Engine(Struct, frozen=True):
    """The engine's version, all counters by name, and the fingerprint secrets.

    `omitted_max` is the largest number of omitted candidates that a decision lists.
    """

    version: str
    counters: Mapping[str, TokenCounter]
    secrets: Secrets = Secrets()
    omitted_max: int = 1_000
