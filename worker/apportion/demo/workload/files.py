"""One request from the text files of a folder and a query, for policies such as `search`.

`.git`, files that a `.gitignore` names, links, binary files and files that are too large are left out. If the
rest is too large for one event, files with rare words of the query are preferred.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pathspec import GitIgnoreSpec

from apportion.demo.workload.paths import is_test

_WORD = re.compile(r"[A-Za-z0-9]{3,}")
_DOCS = frozenset({".adoc", ".md", ".org", ".rst", ".tex", ".txt"})
_DATA = frozenset({".csv", ".json", ".jsonl", ".lock", ".svg", ".toml", ".tsv", ".xml", ".yaml", ".yml"})
_ENVELOPE_BYTES = 1_024
"""The largest size of the event without its candidates and its query."""
_ID_BYTES = 6
"""The bytes that an id and a comma add to a candidate."""
_encode = msgspec.json.Encoder().encode


class LeftOut(StrEnum):
    """The reason why a file is not in the request."""

    IGNORED = "ignored by .gitignore"
    LINK = "symbolic links"
    BINARY = "not UTF-8 text"
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    TOO_LARGE = "above --max-file-bytes"
    NO_ROOM = "beyond --max-bytes"


class _Candidate(Struct, frozen=True):
    path: str
    kind: str
    lane: str
    content: str
    id: str = ""


class _FolderEvent(Struct, frozen=True, tag_field="type", tag="context-request"):
    request_id: str
    session_id: str
    requested_at: str
    query: str
    candidates: tuple[_Candidate, ...]


class FolderRequest(Struct, frozen=True):
    """The request as one line of JSON, the number of its files, and the files left out, counted by reason."""

    event: bytes
    files: int
    left_out: dict[LeftOut, int]


def from_files(folder: Path, query: str, *, file_bytes_max: int, bytes_max: int) -> FolderRequest:
    """Return a request of a folder's text files, numbered in the order of their paths.

    The numbers are their ids, so a decision contains no path. The request has the time of the newest file.
    The same files and query give the same bytes.
    """
    left_out: Counter[LeftOut] = Counter()
    modified_s = dict(_text_files(folder, file_bytes_max, left_out))
    kept: list[_Candidate] = []
    newest_s, left_bytes = 0, bytes_max - _ENVELOPE_BYTES - len(_encode(query))
    for candidate in _by_words(modified_s, query):
        size = len(_encode(candidate)) + _ID_BYTES
        if size > left_bytes:
            left_out[LeftOut.NO_ROOM] += 1
            continue
        left_bytes -= size
        kept.append(candidate)
        newest_s = max(newest_s, modified_s[candidate])
    kept.sort(key=attrgetter("path"))
    candidates = tuple([replace(candidate, id=f"{number:05}") for number, candidate in enumerate(kept, 1)])
    name = hashlib.sha256(_encode((query, candidates))).hexdigest()[:16]
    requested_at = datetime.fromtimestamp(newest_s, UTC).isoformat()
    event = _encode(_FolderEvent(f"files-{name}", "files", requested_at, query, candidates))
    counts = {reason: left_out[reason] for reason in LeftOut if left_out[reason]}
    return FolderRequest(event, len(candidates), counts)


def _by_words(files: Collection[_Candidate], query: str) -> list[_Candidate]:
    """Return the files by the query's words in them, weighted by their rarity; ties by path."""
    words = {word.lower() for word in _WORD.findall(query)}
    found: dict[str, list[str]] = {}
    for file in files:
        text = f"{file.path}\n{file.content}".lower()
        found[file.path] = [word for word in words if word in text]
    counts = Counter(chain.from_iterable(found.values()))
    weights = {path: sum(len(files) // counts[word] for word in own) for path, own in found.items()}
    return sorted(files, key=lambda file: (-weights[file.path], file.path))


def _lane(path: str) -> str:
    ending = Path(path).suffix.lower()
    if is_test(path):
        return "tests"
    return "docs" if ending in _DOCS else "data" if ending in _DATA else "code"


def _text_files(folder: Path, bytes_max: int, left_out: Counter[LeftOut]) -> Iterator[tuple[_Candidate, int]]:
    """Yield the text files of a folder, each with the time of its last change."""
    folder = folder.resolve()
    for file in _files(folder, _ignores_above(folder), left_out):
        path = file.relative_to(folder).as_posix()
        try:
            facts = file.stat()
            if facts.st_size > bytes_max:
                left_out[LeftOut.TOO_LARGE] += 1
                continue
            content = file.read_bytes().decode()
        except UnicodeDecodeError:
            left_out[LeftOut.BINARY] += 1
        except OSError:
            left_out[LeftOut.UNREADABLE] += 1
        else:
            if "\0" in content:
                left_out[LeftOut.BINARY] += 1
            elif not content:
                left_out[LeftOut.EMPTY] += 1
            else:
                yield _Candidate(path, "semantic_match", _lane(path), content), int(facts.st_mtime)


def _files(
    folder: Path, above: Sequence[tuple[Path, GitIgnoreSpec]], left_out: Counter[LeftOut]
) -> Iterator[Path]:
    """Yield the files below a folder by name. The nearest `.gitignore` with a rule for a file decides."""
    specs = [*above, *_ignore_in(folder)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        left_out[LeftOut.UNREADABLE] += 1
        return
    for entry in entries:
        path = Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git":
            continue
        if entry.is_symlink():
            left_out[LeftOut.LINK] += 1
        elif _is_ignored(path, specs, is_folder=is_folder):
            left_out[LeftOut.IGNORED] += 1
        elif is_folder:
            yield from _files(path, specs, left_out)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _ignores_above(folder: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    """Return the `.gitignore` files above a folder, from the top of its repository down."""
    tops = [parent for parent in (folder, *folder.parents) if (parent / ".git").exists()]
    between = [parent for parent in folder.parents if tops and parent.is_relative_to(tops[0])]
    return [found for parent in reversed(between) for found in _ignore_in(parent)]


def _ignore_in(folder: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        lines = (folder / ".gitignore").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [(folder, GitIgnoreSpec.from_lines(lines))]


def _is_ignored(path: Path, specs: Sequence[tuple[Path, GitIgnoreSpec]], *, is_folder: bool) -> bool:
    for folder, spec in reversed(specs):
        name = path.relative_to(folder).as_posix()
        include = spec.check_file(f"{name}/" if is_folder else name).include
        if include is not None:
            return include
    return False
