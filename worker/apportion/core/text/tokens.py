"""Token counters: the protocol of all counters, and the three estimators.

Exact counters, which load a vocabulary, are in `apportion.engine.counters`.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from apportion.core.text.characters import words


class CounterName(StrEnum):
    """The names of counters that every engine has."""

    CHARS4 = "chars4"
    BYTES4 = "bytes4"
    WORDS13 = "words1.3"
    O200K_BASE = "o200k_base"
    CL100K_BASE = "cl100k_base"
    CLAUDE_3 = "claude-3"
    CLAUDE_4_7 = "claude-4.7"
    CLAUDE_4_8 = "claude-4.8"


class ModelCounter(StrEnum):
    """The names of counters by open models' vocabularies, which the extra `counters` installs."""

    GEMMA3 = "gemma3"
    GEMMA4 = "gemma4"
    LLAMA3 = "llama3"
    QWEN3 = "qwen3"
    DEEPSEEK_V3 = "deepseek_v3"
    MISTRAL_V3 = "mistral_v3"
    KIMI_K2 = "kimi_k2"
    KIMI_K3 = "kimi_k3"
    GLM4 = "glm4"


OWN_COUNTER = re.compile(r"file:[A-Za-z0-9._-]{1,64}")
"""The name of a counter that users add by a tokenizer's file."""


class TokenCounter(Protocol):
    """A counter of tokens: the same text has the same count on every machine and in every version.

    The empty string costs 0. Counts of parts need not add up to the count of the whole.
    """

    @property
    def name(self) -> str:
        """The name in policies and decisions."""

    @property
    def digest(self) -> str:
        """The digest of the rule or the vocabulary: `sha256:…`."""

    def count(self, text: str) -> int:
        """Return the tokens of one text."""

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""


class Units(Struct, frozen=True):
    """The additive units of a counter: its tokens, or an estimator's sum before it is rounded."""

    of: Callable[[str], int]
    """Returns the units of a text."""
    tokens: Callable[[int], int]
    """Returns the tokens of a number of units."""
    known: Callable[[str, int], int]
    """Returns the units of a text with the given count."""
    is_exact: bool = True
    """True if the units of parts add up at each seam (see `core.text.reckoning`); else sums are near."""
    dear: bool = False
    """Whether counting is slow, so that `core.text.reckoning` cuts long texts without a seam on the grid."""


class Estimator:
    """A counter by a formula; `rule` describes the formula and gives the digest."""

    def __init__(self, name: str, rule: str, count: Callable[[str], int]) -> None:
        self.name = name
        self.digest = "sha256:" + hashlib.sha256(rule.encode()).hexdigest()
        self.count = count

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


def _bytes(text: str) -> int:
    return len(text.encode())


def _of_quarters(units: int) -> int:
    return (units + 3) // 4


def _of_words(number: int) -> int:
    return (13 * number + 9) // 10


_WORDS_RULE = "ceil(words * 1.3), words split on Unicode White_Space"
ESTIMATORS: tuple[TokenCounter, ...] = (
    Estimator(CounterName.CHARS4, "ceil(code points / 4)", lambda text: (len(text) + 3) // 4),
    Estimator(CounterName.BYTES4, "ceil(UTF-8 bytes / 4)", lambda text: _of_quarters(_bytes(text))),
    Estimator(CounterName.WORDS13, _WORDS_RULE, lambda text: _of_words(words(text))),
)
_UNITS: Mapping[str, Units] = {
    CounterName.CHARS4: Units(len, _of_quarters, lambda text, _: len(text)),
    CounterName.BYTES4: Units(_bytes, _of_quarters, lambda text, _: _bytes(text)),
    CounterName.WORDS13: Units(words, _of_words, lambda text, _: words(text)),
}


def units_of(counter: TokenCounter) -> Units:
    """Return the additive units of a counter.

    They are the unrounded measure of an estimator, `units(text)` of a counter that has this method, else
    tokens. The method counts a text within a longer one; its sums are near the count of the whole, as are
    those of a counter whose `is_additive` is false.
    """
    within: Callable[[str], int] | None = getattr(counter, "units", None)
    if within is not None:
        return Units(within, lambda tokens: tokens, lambda text, _: within(text), is_exact=False, dear=True)
    is_exact: bool = getattr(counter, "is_additive", True)
    exact = Units(counter.count, lambda tokens: tokens, lambda _, tokens: tokens, is_exact, dear=True)
    return _UNITS.get(counter.name, exact)
