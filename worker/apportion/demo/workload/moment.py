"""A moment of a history: its edits, and the relevance of texts to them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from apportion.demo.workload.index import ANALYSED_MAX_CHARACTERS, Index
from apportion.demo.workload.repository import FileChange, Repository
from apportion.demo.workload.text import CHUNK_MAX_CHARACTERS, Hunk, chunks, hunks, identifiers, words

_QUERY_WORDS = 48

_words = lru_cache(maxsize=1024)(words)


class Edit(NamedTuple):
    """A change of a text file; words and names are those of its removed and added lines and of its path."""

    change: FileChange
    hunks: tuple[Hunk, ...]
    words: frozenset[str]
    names: frozenset[str]
    size: int

    @property
    def path(self) -> str:
        """The file that changed."""
        return self.change.path

    @property
    def status(self) -> str:
        """Say what happened to the file."""
        if self.change.old is None:
            return "added"
        return "deleted" if self.change.new is None else "modified"


class Moment(NamedTuple):
    """A moment with a request.

    - `request_id`: its id, unique in the whole history.
    - `session_id`: the author's session.
    - `time_s`: its time, the only clock.
    - `event`: the kind of event.
    - `commitish`: the commit that was checked out; none before the first one.
    - `foci`: the edits that the request is about.
    - `pending`: all edits that are not committed yet, or of this commit; of very many, the largest.
    - `message`: the commit's message; empty before the commit.
    """

    request_id: str
    session_id: str
    time_s: int
    event: str
    commitish: str | UnsetType
    foci: tuple[Edit, ...]
    pending: tuple[Edit, ...]
    message: str


class MomentQuery:
    """The words of a moment, each with its weight: log2 of all files over the other files that hold it."""

    def __init__(self, moment: Moment, index: Index) -> None:
        asked = words(moment.message).union(*(edit.words for edit in moment.foci))
        edited = {edit.path for edit in moment.foci}
        heaviest = sorted((-index.weight(word, edited), word) for word in asked)[:_QUERY_WORDS]
        self.weights: Mapping[str, int] = {word: -weight for weight, word in heaviest if weight}
        self._total = sum(self.weights.values())

    def relevance(self, text: str) -> float:
        """Return the share, by weight, of the words asked for that a text has, rounded to thousandths."""
        if not self._total:
            return 0.0
        found = _words(text)
        return round(sum(self.weights[word] for word in self.weights if word in found) / self._total, 3)


def is_edit(repository: Repository, change: FileChange) -> bool:
    """Return whether a change is one of text: both sides are, or are absent, and they differ."""
    old, new = repository.text(change.old), repository.text(change.new)
    return old is not None and new is not None and old != new


def edit(repository: Repository, change: FileChange) -> Edit:
    """Return a change of text with its difference."""
    found = hunks(repository.text(change.old) or "", repository.text(change.new) or "")
    changed = "".join(hunk.changed for hunk in found)
    analysed = changed[:ANALYSED_MAX_CHARACTERS]
    return Edit(change, found, words(analysed) | words(change.path), identifiers(analysed), len(changed))


def diff_pieces(edit: Edit) -> Iterator[str]:
    """Yield an edit's difference in pieces of about one chunk, each headed like a file in a patch.

    A piece ends with a hunk; only a longer hunk is cut, like a text.
    """
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
    """Return a path as one line of a patch: quoted, where it would not be one."""
    return path if path.isprintable() and '"' not in path else msgspec.json.encode(path).decode()
