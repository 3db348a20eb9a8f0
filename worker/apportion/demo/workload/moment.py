"""Moments of a history: their edits, and the relevance of texts to them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from apportion.demo.workload.documents import machine_made
from apportion.demo.workload.index import ANALYSED_MAX_CHARACTERS, Index
from apportion.demo.workload.repository import FileChange, Repository
from apportion.demo.workload.text import CHUNK_MAX_CHARACTERS, Hunk, chunks, hunks, identifiers, words

_QUERY_WORDS = 48

_words = lru_cache(maxsize=1024)(words)


class Edit(NamedTuple):
    """A change of a text file."""

    change: FileChange
    hunks: tuple[Hunk, ...]
    words: frozenset[str]
    """The words of the removed and added lines, and of the path."""
    names: frozenset[str]
    """The names in the removed and added lines."""
    size: int
    """The number of characters in the removed and added lines."""

    @property
    def path(self) -> str:
        """The changed file."""
        return self.change.path

    @property
    def status(self) -> str:
        """The kind of change: `added`, `deleted` or `modified`."""
        if self.change.old is None:
            return "added"
        return "deleted" if self.change.new is None else "modified"


class Moment(NamedTuple):
    """A moment of a history for which there is a request."""

    request_id: str
    """The id of the request, unique in the history."""
    session_id: str
    time_s: int
    event: str
    commitish: str | UnsetType
    """The commit that is checked out; unset before the first commit."""
    foci: tuple[Edit, ...]
    """The edits that are the subject of the request."""
    pending: tuple[Edit, ...]
    """The largest edits that are not committed yet, or that belong to this commit."""
    message: str
    """The commit's message; empty before the commit."""


class MomentQuery:
    """The heaviest words of a moment, with their weights (`Index.weight`)."""

    def __init__(self, moment: Moment, index: Index) -> None:
        found = words(moment.message).union(*(edit.words for edit in moment.foci))
        edited = {edit.path for edit in moment.foci}
        heaviest = sorted((-index.weight(word, edited), word) for word in found)[:_QUERY_WORDS]
        self.weights: Mapping[str, int] = {word: -weight for weight, word in heaviest if weight}
        self._total = sum(self.weights.values())

    def relevance(self, text: str) -> float:
        """Return the share, by weight, of the query's words that are in a text, rounded to thousandths."""
        if not self._total:
            return 0.0
        found = _words(text)
        return round(sum(self.weights[word] for word in self.weights if word in found) / self._total, 3)


def is_edit(repository: Repository, change: FileChange) -> bool:
    """Return whether both sides of a change are absent or texts that no program made, and differ."""
    old, new = repository.text(change.old), repository.text(change.new)
    if old is None or new is None or old == new:
        return False
    return not any(machine_made(change.path, text) for text in (old, new))


def edit(repository: Repository, change: FileChange) -> Edit:
    """Return a change of a text file as an edit."""
    found = hunks(repository.text(change.old) or "", repository.text(change.new) or "")
    changed = "".join(hunk.changed for hunk in found)
    analysed = changed[:ANALYSED_MAX_CHARACTERS]
    return Edit(change, found, words(analysed) | words(change.path), identifiers(analysed), len(changed))


def diff_pieces(edit: Edit) -> Iterator[str]:
    """Yield the hunks of an edit in pieces of about one chunk, each with the header of a patch."""
    old = "/dev/null" if edit.change.old is None else _quoted(f"a/{edit.path}")
    new = "/dev/null" if edit.change.new is None else _quoted(f"b/{edit.path}")
    header = f"--- {old}\n+++ {new}\n"
    return (header + piece for piece in _packed(hunk.text for hunk in edit.hunks))


def _packed(texts: Iterable[str]) -> Iterator[str]:
    held = ""
    for text in texts:
        if held and len(held) + len(text) > CHUNK_MAX_CHARACTERS:
            yield held
            held = ""
        if len(text) > CHUNK_MAX_CHARACTERS:
            yield from chunks(text)
        else:
            held += text
    if held:
        yield held


def _quoted(path: str) -> str:
    """Return a path as one line of a patch, quoted if it has quotes or is not printable."""
    return path if path.isprintable() and '"' not in path else msgspec.json.encode(path).decode()
