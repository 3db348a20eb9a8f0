"""Engine: everything that composing needs besides its input. The shell creates it once."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from apportion.core.fingerprints import Secrets
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import TokenCounter


class Engine(Struct, frozen=True):
    """The engine's version, counters, secrets, and the most omitted candidates that a decision lists."""

    version: str
    counters: Mapping[str, TokenCounter]
    secrets: Secrets = Secrets()
    omitted_max: int = 1_000

    def load_counters(self, policies: Iterable[Policy]) -> None:
        """Load the counters of policies now, so that no answer waits for one to load."""
        for policy in policies:
            self.counters[policy.counter]
