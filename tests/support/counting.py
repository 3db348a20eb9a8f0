"""A counter that records the counted texts, for tests of the amount of work."""

from apportion.core.text.tokens import TokenCounter


class Counting:
    """A counter that remembers the texts that it counted one at a time."""

    def __init__(self, counter: TokenCounter) -> None:
        """Count as that counter does."""
        self.name, self.digest, self.count_many = counter.name, counter.digest, counter.count_many
        self._count = counter.count
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        self.texts.append(text)
        return self._count(text)
