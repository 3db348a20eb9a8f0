"""A counter whose counts are corrected by a factor in thousandths."""

from collections.abc import Sequence

from msgspec import Struct

from apportion.core.text.tokens import TokenCounter

WHOLE = 1_000
"""The factor that changes nothing."""


def scale_tokens(tokens: int, permille: int) -> int:
    """Return tokens times a factor, rounded up."""
    return -(-tokens * permille // WHOLE)


class ScaledCounter(Struct, frozen=True):
    """The counts of a counter times a factor, rounded up for each text."""

    counter: TokenCounter
    permille: int

    @property
    def name(self) -> str:
        """The counter's name with the factor, so that no rule of an estimator applies."""
        return f"{self.counter.name}*{self.permille}"

    @property
    def digest(self) -> str:
        """The digest of the counter."""
        return self.counter.digest

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        return scale_tokens(self.counter.count(text), self.permille)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return [scale_tokens(tokens, self.permille) for tokens in self.counter.count_many(texts)]


def scaled_counter(counter: TokenCounter, permille: int) -> TokenCounter:
    """Return a counter with a factor; the same counter if the factor changes nothing."""
    return counter if permille == WHOLE else ScaledCounter(counter, permille)
