"""What composing needs beside its input; a value that the shell makes once."""

from collections.abc import Mapping

from msgspec import Struct

from apportion.core.identity import Secrets
from apportion.core.text.tokens import TokenCounter


class Engine(Struct, frozen=True):
    """The engine's version, all counters by name, the fingerprint secrets.

    `omitted_max` bounds the omitted candidates that a decision lists.
    """

    version: str
    counters: Mapping[str, TokenCounter]
    secrets: Secrets = Secrets()
    omitted_max: int = 1_000
