"""All token counters by name: the estimators, and the exact BPE counters, which load on first use.

Importing this module loads no vocabulary.
"""

from collections.abc import Iterator, Mapping

from apportion.core.text.tokens import ESTIMATORS, CounterName, TokenCounter
from apportion.engine.counters.bpe import PATTERNS
from apportion.engine.counters.bpe import exact_counter as exact_counter
from apportion.engine.counters.claude.counter import FAMILIES, claude_counter

_ESTIMATORS = {counter.name: counter for counter in ESTIMATORS}


class _Counters(Mapping[str, TokenCounter]):
    """A counter for each CounterName; a lookup of another name raises KeyError."""

    def __getitem__(self, name: str) -> TokenCounter:
        if name in FAMILIES:
            return claude_counter(name)
        return exact_counter(name) if name in PATTERNS else _ESTIMATORS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(CounterName)

    def __len__(self) -> int:
        return len(CounterName)


COUNTERS: Mapping[str, TokenCounter] = _Counters()
"""All counters by name. An exact counter loads when it is first looked up, and stays in memory."""


def is_installed(name: str) -> bool:
    """Return whether the counter of that name can be loaded here."""
    return name in COUNTERS
