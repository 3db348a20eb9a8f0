"""One request from the text files of a folder and a query, for policies such as `search`.

Files are ranked by the query's own rule, passage by passage. Files are taken whole in this order while they fit.
A large file, and a file that does not fit, gives its best passages as windows. Files that nobody writes by hand
come last, in lane `data`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from apportion.core.arrays import NDArray, np
from apportion.core.query.passages import ContentTerms
from apportion.core.query.reading import read_contents
from apportion.core.query.relevance import Document, relevances
from apportion.core.query.terms import ENTRY, KEY_BYTES, terms_of
from apportion.demo.workload.documents import LONG_LINE_CHARACTERS, PROSE, decode, has_long_line, machine_made
from apportion.demo.workload.folder import files_of
from apportion.demo.workload.paths import is_test

_READ_MAX_BYTES = 8 << 20
"""A larger file is not read."""
_PASSAGE_CHARACTERS = 2_400
"""As in policy `search`; in a small event, a sixteenth of it."""
_PASSAGE_MIN_CHARACTERS = 200
_LINE_PASSAGE_CHARACTERS = 600
"""The largest passage of a long line. A line of code or data has no parts that are known."""
_BATCH_CHARACTERS = 1 << 20
_DATA = frozenset({".csv", ".json", ".jsonl", ".lock", ".svg", ".toml", ".tsv", ".xml", ".yaml", ".yml"})
_ENVELOPE_BYTES = 1_024
"""The largest size of the event without its candidates and its query."""
_ID_BYTES = 6
"""The bytes that an id and a comma add to a candidate."""
_NAMED_MAX = 3
_encode = msgspec.json.Encoder().encode


class LeftOut(StrEnum):
    """The reason why a file is not in the request."""

    IGNORED = "ignored by .gitignore"
    LINK = "symbolic links"
    BINARY = "not text in UTF-8 or UTF-16"
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    TOO_LARGE = "above 8 MiB"
    NO_WORDS = "large or minified, without words of the query"
    NO_ROOM = "beyond --max-bytes"


class _Candidate(Struct, frozen=True, omit_defaults=True):
    path: str
    kind: str
    lane: str
    content: str
    id: str = ""
    chunk_index: int | UnsetType = UNSET
    source_label: str | UnsetType = UNSET


class _FolderEvent(Struct, frozen=True, tag_field="type", tag="context-request"):
    request_id: str
    session_id: str
    requested_at: str
    query: str
    candidates: tuple[_Candidate, ...]


class FolderRequest(Struct, frozen=True):
    """The request as one line of JSON, and its files.

    `parts` is the number of files of which only windows are in it. `left_out` counts the other files by reason.
    `named` are files left out that have most words of the query, each with its kind.
    """

    event: bytes
    files: int
    parts: int
    left_out: dict[LeftOut, int]
    named: list[str]


class _Section(Struct, frozen=True):
    """A range of a file, and the terms of its passages that are in the query."""

    begin: int
    end: int
    is_line: bool
    """Whether the range is a single long line."""


class _File(Struct):
    """A file that was read. Its content is read again if it is chosen."""

    path: str
    source: Path
    modified_s: int
    made: str | None
    is_whole: bool
    """Whether it may be a single candidate: it has no long line."""
    size: int
    """The size of this candidate in bytes."""
    sections: list[_Section]
    terms: list[ContentTerms]
    shares: list[int]
    """The relevance of each passage in thousandths."""

    @property
    def best(self) -> int:
        """The relevance of its best passage."""
        return max(self.shares, default=0)


def from_files(folder: Path, query: str, *, file_bytes_max: int, bytes_max: int) -> FolderRequest:
    """Return a request of a folder's text files, numbered in the order of their paths.

    The numbers are their ids, so a decision contains no path. The request has the time of the newest file.
    The same files and query give the same bytes.
    """
    left_out: Counter[LeftOut] = Counter()
    terms = terms_of(query)
    characters = max(_PASSAGE_MIN_CHARACTERS, min(_PASSAGE_CHARACTERS, bytes_max // 16))
    files = _ranked(folder, terms, characters, left_out)
    left_bytes = bytes_max - _ENVELOPE_BYTES - len(_encode(query))
    chosen: dict[str, list[_Candidate]] = {}
    # no file takes more than a quarter before every file had its turn
    turns = [(made, most) for made in (False, True) for most in (left_bytes // 4, left_bytes)]
    for is_made, most in turns:
        for file in files:
            held = chosen.get(file.path, [])
            if bool(file.made) is not is_made or (held and held[0].chunk_index is UNSET):
                continue
            held_bytes = sum(map(_size, held))
            candidates = _candidates(file, left_bytes + held_bytes, min(most, file_bytes_max))
            if candidates:
                left_bytes -= sum(map(_size, candidates)) - held_bytes
                chosen[file.path] = candidates
    absent = [file for file in files if file.path not in chosen]
    left_out.update([LeftOut.NO_ROOM if file.size <= file_bytes_max else LeftOut.NO_WORDS for file in absent])
    kept = sorted(chain.from_iterable(chosen.values()), key=attrgetter("path", "chunk_index"))
    numbered = tuple([replace(candidate, id=f"{number:05}") for number, candidate in enumerate(kept, 1)])
    name = hashlib.sha256(_encode((query, numbered))).hexdigest()[:16]
    newest_s = max([file.modified_s for file in files if file.path in chosen], default=0)
    requested_at = datetime.fromtimestamp(newest_s, UTC).isoformat()
    event = _encode(_FolderEvent(f"files-{name}", "files", requested_at, query, numbered))
    counts = {reason: left_out[reason] for reason in LeftOut if left_out[reason]}
    parts = len({candidate.path for candidate in kept if candidate.chunk_index is not UNSET})
    named = [f"{file.path} ({file.made})" for file in absent if file.made and 2 * _words(file) > len(terms)]
    return FolderRequest(event, len(chosen), parts, counts, named[:_NAMED_MAX])


def _ranked(folder: Path, terms: frozenset[str], characters: int, left_out: Counter[LeftOut]) -> list[_File]:
    """Return the text files by their best passages, ties by path; files that nobody writes by hand are last."""
    files = list(_read_all(folder.resolve(), terms, characters, left_out))
    documents = [Document(content, file.path, file.path) for file in files for content in file.terms]
    found = iter(relevances(terms, documents).by_document)
    for file in files:
        for content, shares in zip(file.terms, found, strict=False):
            file.shares += shares or [0] * len(content.runs)
    return sorted(files, key=lambda file: (file.made is not None, -file.best, file.path))


def _read_all(
    folder: Path, terms: frozenset[str], characters: int, left_out: Counter[LeftOut]
) -> Iterator[_File]:
    """Yield the text files of a folder, read in batches, because a batch takes ten times its size in memory."""
    keys = np.array(
        sorted({int.from_bytes(term.encode()[:KEY_BYTES], "little") for term in terms}), np.uint64
    )
    batch: list[tuple[_File, str]] = []
    held = 0
    for source, is_generated in files_of(folder, lambda reason: left_out.update([LeftOut[reason.upper()]])):
        path = source.relative_to(folder).as_posix()
        content = _content(source, path, left_out)
        if content is None:
            continue
        made = machine_made(path, content) or ("generated" if is_generated else None)
        sections = _sections(path, content)
        size = _size(_candidate(path, made, content))
        is_whole = not any(section.is_line for section in sections)
        modified_s = int(source.stat().st_mtime)
        batch.append((_File(path, source, modified_s, made, is_whole, size, sections, [], []), content))
        held += len(content)
        if held > _BATCH_CHARACTERS:
            yield from _with_terms(batch, characters, keys)
            batch, held = [], 0
    yield from _with_terms(batch, characters, keys)


def _content(source: Path, path: str, left_out: Counter[LeftOut]) -> str | None:
    reason = LeftOut.BINARY
    try:
        if source.stat().st_size > _READ_MAX_BYTES:
            reason = LeftOut.TOO_LARGE
        elif content := decode(source.read_bytes(), path):
            if "\0" not in content:
                return content
        else:
            reason = LeftOut.EMPTY
    except UnicodeDecodeError:
        pass
    except OSError:
        reason = LeftOut.UNREADABLE
    left_out[reason] += 1
    return None


def _sections(path: str, content: str) -> list[_Section]:
    """Return the ranges of a file: its long lines, and the lines between; by default the whole file."""
    if not has_long_line(path, content):
        return [_Section(0, len(content), is_line=False)]
    sections: list[_Section] = []
    begin = end = 0
    for line in content.splitlines(keepends=True):
        begin, end = end, end + len(line)
        is_line = len(line) > LONG_LINE_CHARACTERS
        if sections and not (is_line or sections[-1].is_line):
            sections[-1] = _Section(sections[-1].begin, end, is_line=False)
        else:
            sections.append(_Section(begin, end, is_line=is_line))
    return sections


def _with_terms(
    batch: Sequence[tuple[_File, str]], characters: int, keys: NDArray[np.uint64]
) -> Iterator[_File]:
    """Yield files with the terms of their sections that begin as terms of the query do."""
    contents = [content[part.begin : part.end] for file, content in batch for part in file.sections]
    sizes = [
        min(_LINE_PASSAGE_CHARACTERS, characters) if part.is_line else characters
        for file, _ in batch
        for part in file.sections
    ]
    found = iter(read_contents(contents, sizes))
    for file, _ in batch:
        file.terms = [_only(content, keys) for _, content in zip(file.sections, found, strict=False)]
        yield file


def _only(content: ContentTerms, keys: NDArray[np.uint64]) -> ContentTerms:
    """Return the terms of a content with these keys alone."""
    entries = np.frombuffer(content.entries, ENTRY)
    entries = entries[np.isin(np.ascontiguousarray(entries["key"]), keys)]
    # the words one after another; few are left
    ends = np.cumsum(entries["size"])
    words = [content.plain[start : start + size] for start, size in entries[["start", "size"]].tolist()]
    entries["start"] = ends - entries["size"]
    return ContentTerms(content.passages, content.runs, entries.tobytes(), b"".join(words))


def _words(file: _File) -> int:
    """Return the number of the query's terms in a file; terms with the same first eight bytes count once."""
    return len(
        {key for content in file.terms for key in np.frombuffer(content.entries, ENTRY)["key"].tolist()}
    )


def _candidates(file: _File, room_bytes: int, file_bytes_max: int) -> list[_Candidate]:
    """Return a file as it fits: whole, else its best passages as windows in their order, else nothing."""
    room_bytes = min(room_bytes, file_bytes_max)
    fits = file.is_whole and file.size <= room_bytes
    if not fits and not file.best:
        return []
    try:
        content = decode(file.source.read_bytes(), file.path)
    except (OSError, UnicodeDecodeError):
        return []
    return [_candidate(file.path, file.made, content)] if fits else _windows(file, content, room_bytes)


def _windows(file: _File, content: str, room_bytes: int) -> list[_Candidate]:
    """Return the best passages of a file that fit; neighbours are joined, unless they are parts of a line."""
    spans = [
        (part.begin + begin, part.begin + end, part.is_line)
        for part, terms in zip(file.sections, file.terms, strict=True)
        for begin, end in pairwise(terms.passages.offsets)
    ]
    chosen: list[int] = []
    for number in sorted(range(len(spans)), key=lambda number: -file.shares[number]):
        size = _size(_window(file, content, spans[number], number))
        if not file.shares[number] or size > room_bytes:
            break
        room_bytes -= size
        chosen.append(number)
    windows: list[tuple[int, tuple[int, int, bool]]] = []
    for number in sorted(chosen):
        begin, end, is_line = spans[number]
        if windows and windows[-1][1][1:] == (begin, False) and not is_line:
            windows[-1] = windows[-1][0], (windows[-1][1][0], end, False)
        else:
            windows.append((number, (begin, end, is_line)))
    return [_window(file, content, span, number) for number, span in windows]


def _window(file: _File, content: str, span: tuple[int, int, bool], number: int) -> _Candidate:
    begin, end, is_line = span
    first = content.count("\n", 0, begin) + 1
    last = first + content.count("\n", begin, end - 1)
    label = f"[part of line {first}]" if is_line else f"[lines {first} to {last}]"
    whole = _candidate(file.path, file.made, content[begin:end])
    return replace(whole, chunk_index=number, source_label=label)


def _candidate(path: str, made: str | None, content: str) -> _Candidate:
    return _Candidate(path, "semantic_match", "data" if made else _lane(path), content)


def _size(candidate: _Candidate) -> int:
    return len(_encode(candidate)) + _ID_BYTES + len(',"id":""')


def _lane(path: str) -> str:
    ending = Path(path).suffix.lower()
    if is_test(path):
        return "tests"
    return "docs" if ending in PROSE else "data" if ending in _DATA else "code"
