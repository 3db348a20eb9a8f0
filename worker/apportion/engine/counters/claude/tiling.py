"""Least number of vocabulary pieces that make up a marked text.

A character without a piece costs the least number of tokens for its UTF-8 bytes. No piece has a closing
marker except at its end, or an opening marker except at its beginning or behind a marker of case. So the
marked text falls apart at these markers, and between two characters that no piece has next to each other.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from operator import add
from typing import Any, TypeVar

_K = TypeVar("_K", str, bytes)
_REMEMBERED_LENGTH, _REMEMBERED = 64, 65_536
_START = 4
"""The length of a repeated character at which longer pieces are found by their lengths."""
_END, _NO_PIECE = "\0", dict[str, Any]()
_DIGITS = 3
"""The length of the longest pieces of digits. All shorter strings of digits are pieces, too."""
_LONG, _LONG_RUN_LENGTH = 24, 1_024
"""The lengths from which a text is divided, and a run is shortened."""
_SEGMENT = re.compile("[ \t\n]+|[0-9]+|[\3\4]?\1?[^\1-\4 \t\n0-9]+\2?|[\1-\4]")
_LONG_RUN = re.compile(rf"(.)\1{{{_LONG_RUN_LENGTH - 1},}}", re.DOTALL)


class CostMemo(dict[_K, int]):
    """A function of a text with a bounded memory for short texts."""

    def __init__(self, compute: Callable[[_K], int]) -> None:
        self._compute: Callable[[_K], int] = compute

    def __missing__(self, key: _K) -> int:
        """Compute a value, and remember it."""
        value = self._compute(key)
        if len(key) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[key] = value
        return value


class Tiling:
    """The cost of marked texts by a vocabulary of pieces and of the beginnings of characters in UTF-8."""

    def __init__(self, pieces: Iterable[str], prefixes: Iterable[str]) -> None:
        self._pieces = frozenset(pieces)
        self._prefixes = frozenset(map(bytes.fromhex, prefixes))
        self._pairs = {pair for piece in self._pieces for pair in map("".join, pairwise(piece))}
        self._tree: dict[str, Any] = {}
        """The pieces by their characters; the end of a piece has the key "". Long runs end at `_START`."""
        lengths = defaultdict(set)
        for piece in self._pieces:
            start, node = piece[:_START], self._tree
            is_run = len(piece) > _START and start == piece[0] * _START
            if is_run:
                lengths[start].add(len(piece))
            for char in start if is_run else piece:
                node = node.setdefault(char, {})
            if not is_run:
                node[""] = node
        self._lengths = {start: tuple(sorted(known)) for start, known in lengths.items()}
        self._longest = max(map(len, self._pieces))
        self._char = CostMemo(self._bytes_of)
        self._segment = CostMemo(self.cost_of_segment)
        self._run = cache(self._run_costs)

    def cost(self, marked: str) -> int:
        """Return the tokens of a marked text."""
        return sum(map(self._segment.__getitem__, _SEGMENT.findall(marked)))

    def cost_of_run(self, char: str, length: int) -> int:
        """Return the tokens of a repeated character."""
        costs, period = self._run(char)
        repeated = max(0, (length - len(costs)) // period + 1) if length >= len(costs) else 0
        return costs[length - repeated * period] + repeated

    def cost_of_segment(self, text: str) -> int:
        """Return the tokens of a marked text within which no piece has to end."""
        if text in self._pieces:
            return 1
        if text[0] in "0123456789":
            return -(-len(text) // _DIGITS)
        if len(text) > _LONG:
            return self._cost_of_parts(text)
        return self._least(text)

    def _cost_of_parts(self, text: str) -> int:
        """Return the tokens of the parts of a text between which no piece can lie."""
        pairs, cost, start = self._pairs, 0, 0
        for end, pair in enumerate(map(add, text, text[1:]), 1):
            if pair not in pairs:
                cost += self._char[text[start]] if end == start + 1 else self._cost_of_part(text[start:end])
                start = end
        return cost + self._cost_of_part(text[start:])

    def _cost_of_part(self, text: str) -> int:
        if text in self._pieces:
            return 1
        if len(text) == 1:
            return self._char[text]
        if text[:2] in self._pieces and text == text[0] * len(text):
            return self.cost_of_run(text[0], len(text))
        saved = 0
        if len(text) > _LONG_RUN_LENGTH:
            text, saved = self._shortened(text)
        return self._least(text) + saved

    def _least(self, text: str) -> int:
        """Return the least cost of a text, from the least costs of its beginnings."""
        size, pieces_from, char = len(text), self._tree.get, self._char
        text += _END
        costs = [0, *[size * 4] * size]
        for start in range(size):
            first, end, cost = text[start], start + 1, costs[start] + 1
            if cost >= costs[size]:
                continue
            node = pieces_from(first, _NO_PIECE)
            if "" not in node:
                costs[end] = min(costs[end], cost - 1 + char[first])
            while node is not None:
                if cost < costs[end] and "" in node:
                    costs[end] = cost
                node, end = node.get(text[end]), end + 1
            if end == start + _START + 1 and first == text[start + 1]:
                for end in self._ends_of_runs(text, start):
                    costs[end] = min(costs[end], cost)
        return costs[size]

    def _ends_of_runs(self, text: str, start: int) -> list[int]:
        """Return the ends of all pieces at a place that begin with a repeated character."""
        lengths = self._lengths.get(text[start : start + _START], ())
        return [start + length for length in lengths if text[start : start + length] in self._pieces]

    def _shortened(self, text: str) -> tuple[str, int]:
        """Return a text with its long runs shortened, and the tokens that this saves.

        A piece at each edge can take part of a run. The rest of the run costs as a run of its own, with a
        periodic cost.
        """
        saved = 0

        def shorter(run: re.Match[str]) -> str:
            nonlocal saved
            costs, period = self._run(run[1])
            times = max(0, (len(run[0]) - 2 * self._longest - len(costs)) // period)
            saved += times
            return run[1] * (len(run[0]) - times * period)

        return _LONG_RUN.sub(shorter, text), saved

    def _run_costs(self, char: str) -> tuple[list[int], int]:
        """Return the costs of short runs of a character, and a period.

        For each longer run, one more token pays for one more period: if that holds for all lengths of one
        period, then it holds for all lengths behind it, because no piece is longer than the period.
        """
        coins = [length for length in range(2, self._longest + 1) if char * length in self._pieces]
        period = max(coins, default=1)
        costs, held = [0], 0
        while held < period:
            size = len(costs)
            best = min((costs[size - coin] for coin in coins if coin <= size), default=4 * size) + 1
            costs.append(min(best, costs[size - 1] + self._char[char]))
            if size >= period:
                held = held + 1 if costs[size] == costs[size - period] + 1 else 0
        return costs, period

    def _bytes_of(self, char: str) -> int:
        """Return the tokens of one character: one for each marker and single character in the vocabulary."""
        data = char.encode()
        if char in self._pieces or len(data) == 1:
            return 1
        costs = [0]
        for end in range(1, len(data) + 1):
            cost = costs[-1]
            for start in range(end - 1):
                if costs[start] < cost and data[start:end] in self._prefixes:
                    cost = costs[start]
            costs.append(cost + 1)
        return costs[-1]
