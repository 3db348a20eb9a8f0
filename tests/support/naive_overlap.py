"""Overlap by its definition: every window, every pair, every score looked at again. Slow, and simple."""

from collections.abc import Collection, Sequence

MULTIPLIER = 0x9E3779B97F4A7C15


def keys(content: str) -> set[int]:
    """Return the keys of a content's sketch."""
    raw = [byte | 0x20 if 65 <= byte <= 90 else byte for byte in content.encode()]
    kept = bytes(byte for byte in raw if byte >= 128 or chr(byte).isalnum())
    found = set()
    for at in range(len(kept) - 7):
        hashed = int.from_bytes(kept[at : at + 8], "little") * MULTIPLIER % 2**64
        if hashed >> 60 == 0:
            found.add((hashed << 4) >> 16)
    return found


def digit_words(content: str) -> set[str]:
    """Return the runs of ASCII letters and digits that have a digit, A to Z made small."""
    plain = "".join(char.lower() if char.isascii() and char.isalnum() else " " for char in content)
    return {word for word in plain.split(" ") if any(char.isdigit() for char in word)}


def pairs(contents: Sequence[str], threshold: int) -> dict[tuple[int, int], int]:
    """Return the keys that each pair that counts shares; each key meets the 15 before it."""
    sketches = [keys(content) for content in contents]
    shared: dict[tuple[int, int], int] = {}
    for key in set().union(*sketches):
        places = [place for place, sketch in enumerate(sketches) if key in sketch]
        for index, later in enumerate(places):
            for earlier in places[max(0, index - 15) : index]:
                shared[earlier, later] = shared.get((earlier, later), 0) + 1
    return {
        (one, other): number
        for (one, other), number in shared.items()
        if 1_000 * number >= threshold * min(len(sketches[one]), len(sketches[other]))
    }


def covers(contents: Sequence[str], threshold: int) -> list[list[int]]:
    """Return cover(i, j), the thousandths of i that j says, for all i and j; none says itself."""
    counted = pairs(contents, threshold)
    sizes = [len(keys(content)) for content in contents]
    words = [digit_words(content) for content in contents]
    table = [[0] * len(contents) for _ in contents]
    for i, one in enumerate(contents):
        for j, other in enumerate(contents):
            shared = counted.get((min(i, j), max(i, j)), 0)
            if i != j and one == other:
                table[i][j] = 1_000
            elif i != j and shared and words[i] <= words[j]:
                table[i][j] = 1_000 * shared // sizes[i]
    return table


class Said:
    """Overlap of candidates with the chosen ones, computed from scratch each time."""

    def __init__(
        self, table: Sequence[Sequence[int]], scores: Sequence[int], exempt: Collection[int]
    ) -> None:
        """Begin with nothing chosen."""
        self.chosen: list[int] = []
        self._table, self._scores, self._exempt = table, scores, exempt

    def cover(self, i: int) -> tuple[int, int]:
        """Return the greatest cover of i, and the first in canonical order that has it."""
        best = max([self._table[i][j] for j in self.chosen], default=0)
        return best, min([j for j in self.chosen if self._table[i][j] == best], default=0)

    def worth(self, i: int) -> int:
        """Return the score at this moment."""
        if i in self._exempt:
            return self._scores[i]
        return self._scores[i] * (1_000 - self.cover(i)[0]) // 1_000

    def next(self, places: Collection[int]) -> int:
        """Return the one of the greatest discounted score, of equal ones the first."""
        return max(places, key=lambda i: (self.worth(i), -i))
