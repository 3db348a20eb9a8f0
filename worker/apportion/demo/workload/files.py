"""One request from the text files of a folder and a query, for policies such as `search`.

Files are ranked by the passages that the query's own rule finds in them, and taken whole in this order while
they fit. A large file, and a file that does not fit, gives its best passages as windows. Files that are not
written by hand come last, in lane `data`.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, product
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from apportion.core.arrays import NDArray, np
from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.path_ids import normalised_path
from apportion.core.query.passages import ContentTerms, Passages
from apportion.core.query.reading import read_contents
from apportion.core.query.relevance import Document, relevances
from apportion.core.query.rule import QueryRule, without_common
from apportion.core.query.terms import ENTRY, KEY_BYTES, terms_of
from apportion.demo.workload.documents import PROSE, decode, has_long_line, machine_made
from apportion.demo.workload.folder import LeftOut, files_of
from apportion.demo.workload.paths import is_test

_READ_MAX_BYTES = 8 << 20
"""A larger file is not read."""
_RULE = QueryRule(drop_words=True, file_share=300)
_PASSAGE_CHARACTERS = 2_400
"""The size of a passage, as in policy `search`; in a small event, a sixteenth of the event."""
_PASSAGE_MIN_CHARACTERS = 200
_LINE_PASSAGE_CHARACTERS = 600
"""The largest passage of a long line. A line of code or data has no parts that are known."""
_BATCH_CHARACTERS = 1 << 20
_DATA = frozenset({".csv", ".json", ".jsonl", ".lock", ".svg", ".toml", ".tsv", ".xml", ".yaml", ".yml"})
_ENVELOPE_BYTES = 1_024
"""The largest size of the event without its candidates and its query."""
_ID_BYTES = 14
"""The bytes that an id and a comma add to a candidate."""
_NO_TERMS = ContentTerms(Passages((0, 0)), (), b"", b"")
_BEFORE_BLANK = re.compile(r"\n(?=[ \t\r]*\n)")
_WINDOW_MIN_BYTES = 256
"""In less room, no file is read again for a window."""
_NAMED_MAX = 3
_encode = msgspec.json.Encoder().encode


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


class QueryError(ValueError):
    """A query that no request can have."""


class FolderRequest(Struct, frozen=True):
    """The request as one line of JSON, and the number of its files; of `parts` of them only windows.

    `left_out` counts the other files by reason. `named` are files among them that are not written by hand and
    have most words of the query, each with its kind.
    """

    event: bytes
    files: int
    parts: int
    left_out: dict[LeftOut, int]
    named: list[str]


class _File(Struct):
    """A file that was read. Its content is read again if it is chosen."""

    path: str
    source: Path
    modified_s: int
    made: str | None
    has_long_line: bool
    size: int
    """The size in bytes of the candidate that is the whole file."""
    terms: ContentTerms
    """The terms of its passages that begin as terms of the query do."""
    shares: Sequence[int] = ()
    """The relevance of each passage in thousandths; empty if no passage is relevant."""
    best: int = 0
    is_changed: bool = False
    """Its second reading failed, or gave another size or no text."""


def from_files(folder: Path, query: str, *, file_bytes_max: int, bytes_max: int) -> FolderRequest:
    """Return a request of a folder's text files, numbered in the order of their paths.

    The numbers are their ids, so a decision contains no path. The request has the time of the newest file.
    The same files and query give the same bytes. Raises QueryError.
    """
    _check(query, bytes_max)
    left_out: Counter[LeftOut] = Counter()
    terms = frozenset(without_common(terms_of(query)))
    characters = max(_PASSAGE_MIN_CHARACTERS, min(_PASSAGE_CHARACTERS, bytes_max // 16))
    files = _ranked(folder, terms, characters, left_out)
    chosen = _chosen(files, bytes_max - _ENVELOPE_BYTES - len(_encode(query)), file_bytes_max)
    kept = sorted(chain.from_iterable(chosen.values()), key=attrgetter("path", "chunk_index"))
    candidates = tuple([replace(candidate, id=f"{number:05}") for number, candidate in enumerate(kept, 1)])
    name = hashlib.sha256(_encode((query, candidates))).hexdigest()[:16]
    newest_s = max([file.modified_s for file in files if file.path in chosen], default=0)
    requested_at = datetime.fromtimestamp(newest_s, UTC).isoformat()
    event = _encode(_FolderEvent(f"files-{name}", "files", requested_at, query, candidates))
    absent = [file for file in files if file.path not in chosen]
    for file in absent:
        is_part = not file.best and (file.has_long_line or file.size > file_bytes_max)
        reason = LeftOut.NO_WORDS if is_part else LeftOut.NO_ROOM
        left_out[LeftOut.UNREADABLE if file.is_changed else reason] += 1
    counts = {reason: left_out[reason] for reason in LeftOut if left_out[reason]}
    named = [f"{file.path} ({file.made})" for file in absent if file.made and _has_most(file, terms)]
    parts = sum(candidates[0].chunk_index is not UNSET for candidates in chosen.values())
    return FolderRequest(event, len(chosen), parts, counts, named[:_NAMED_MAX])


def _check(query: str, bytes_max: int) -> None:
    if len(query) > (most := Bounds().query_max_characters):
        raise QueryError(f"the query has {len(query):,} characters; at most {most:,} are allowed")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise QueryError("the query is not text in UTF-8") from None
    if (size := len(_encode(query)) + _ENVELOPE_BYTES) > bytes_max:
        raise QueryError(f"the query leaves no room for files: set --max-bytes above {size:,}")


def _chosen(files: Sequence[_File], left_bytes: int, file_bytes_max: int) -> dict[str, list[_Candidate]]:
    """Return the candidates of the files that fit, by path; files that are not written by hand are last."""
    chosen: dict[str, list[_Candidate]] = {}
    left_candidates = Bounds().candidates_max
    # no file takes more than a quarter before every relevant file had its turn
    turns = [(left_bytes // 4, 1), (left_bytes, 1), (left_bytes, 0)]
    for is_made, (most, best_min) in product((False, True), turns):
        for file in files:
            held = chosen.get(file.path, [])
            if bool(file.made) is not is_made or file.best < best_min or file.size == _sum(held):
                continue
            room_bytes = left_bytes + _sum(held)
            candidates = _candidates(file, min(room_bytes, most, file_bytes_max))
            if candidates and len(candidates) <= left_candidates + len(held):
                left_bytes = room_bytes - _sum(candidates)
                left_candidates += len(held) - len(candidates)
                chosen[file.path] = candidates
    return chosen


def _ranked(folder: Path, terms: frozenset[str], characters: int, left_out: Counter[LeftOut]) -> list[_File]:
    """Return the text files by their best passages, ties by path."""
    files = list(_read_all(folder.resolve(), terms, characters, left_out))
    found = relevances(terms, [Document(file.terms, file.path, file.path) for file in files], _RULE)
    for file, shares in zip(files, found.by_document, strict=True):
        file.shares, file.best = shares, max(shares, default=0)
    return sorted(files, key=lambda file: (-file.best, file.path))


def _read_all(
    folder: Path, terms: frozenset[str], characters: int, left_out: Counter[LeftOut]
) -> Iterator[_File]:
    """Yield the text files of a folder, read in batches: reading takes ten times a text's size in memory."""
    begins = sorted({int.from_bytes(term.encode()[:KEY_BYTES], "little") for term in terms})
    keys = np.array(begins, np.uint64)
    batch: list[tuple[_File, str]] = []
    held = 0
    for source, is_generated in files_of(folder, left_out):
        path = source.relative_to(folder).as_posix()
        reason = LeftOut.BINARY
        try:
            path.encode()
            normalised_path(path, "$")
            facts = source.stat()
            if facts.st_size > _READ_MAX_BYTES:
                reason = LeftOut.TOO_LARGE
            elif not (content := decode(source.read_bytes(), path)):
                reason = LeftOut.EMPTY
            elif "\0" not in content:
                made = machine_made(path, content) or ("generated" if is_generated else None)
                size = _size(_candidate(path, made, content))
                is_long = has_long_line(path, content)
                file = _File(path, source, int(facts.st_mtime), made, is_long, size, _NO_TERMS)
                batch.append((file, content))
                held += len(content)
                if held > _BATCH_CHARACTERS:
                    yield from _with_terms(batch, characters, keys)
                    batch, held = [], 0
                continue
        except UnicodeDecodeError:
            pass
        except (EventError, UnicodeEncodeError):
            reason = LeftOut.PATH
        except OSError:
            reason = LeftOut.UNREADABLE
        left_out[reason] += 1
    yield from _with_terms(batch, characters, keys)


def _with_terms(
    batch: Sequence[tuple[_File, str]], characters: int, keys: NDArray[np.uint64]
) -> Iterator[_File]:
    """Yield files with those of their terms that have these keys: memory grows with matches, not texts."""
    short = min(characters, _LINE_PASSAGE_CHARACTERS)
    contents = [_cuttable(file, content) for file, content in batch]
    sizes = [short if file.has_long_line else characters for file, _ in batch]
    for (file, _), terms in zip(batch, read_contents(contents, sizes), strict=True):
        entries = np.frombuffer(terms.entries, ENTRY)
        entries = entries[np.isin(np.ascontiguousarray(entries["key"]), keys)]
        words = [terms.plain[start : start + size] for start, size in entries[["start", "size"]].tolist()]
        entries["start"] = np.cumsum(entries["size"]) - entries["size"]
        file.terms = ContentTerms(terms.passages, terms.runs, entries.tobytes(), b"".join(words))
        yield file


def _cuttable(file: _File, content: str) -> str:
    """Return a content of the same length whose long lines `passages_of` cuts: it has no blank lines."""
    return _BEFORE_BLANK.sub("\f", content) if file.has_long_line else content


def _has_most(file: _File, terms: frozenset[str]) -> bool:
    """Return whether a file has most terms of the query; terms of equal first eight bytes count once."""
    return 2 * len(set(np.frombuffer(file.terms.entries, ENTRY)["key"].tolist())) > len(terms)


def _candidates(file: _File, room_bytes: int) -> list[_Candidate]:
    """Return a file as it fits: whole, else its best passages as windows in their order, else nothing."""
    fits = file.size <= room_bytes and not file.has_long_line
    if not fits and (not file.best or room_bytes < _WINDOW_MIN_BYTES):
        return []
    try:
        whole = _candidate(file.path, file.made, decode(file.source.read_bytes(), file.path))
        file.is_changed = _size(whole) != file.size or "\0" in whole.content
    except (OSError, UnicodeDecodeError):
        file.is_changed = True
    if file.is_changed:
        return []
    return [whole] if fits else _windows(file, whole, room_bytes)


def _windows(file: _File, whole: _Candidate, room_bytes: int) -> list[_Candidate]:
    """Return the best passages of a file that fit; neighbours are joined, unless lines are long."""
    content, offsets = whole.content, file.terms.passages.offsets
    lines = file.terms.passages.lines(content)
    is_inside = [0 < offset < len(content) and content[offset - 1] != "\n" for offset in offsets]

    def window(first: int, last: int) -> _Candidate:
        text = content[offsets[first] : offsets[last + 1]]
        end = lines[last + 1] + is_inside[last + 1]
        part = "part of " if is_inside[first] or is_inside[last + 1] else ""
        label = f"[{part}lines {lines[first] + 1} to {end}]"
        return replace(whole, content=text, chunk_index=first, source_label=label)

    ranges: list[tuple[int, int]] = []
    chosen = set()
    for number in sorted(range(len(file.shares)), key=lambda number: -file.shares[number]):
        room_bytes -= _size(window(number, number))
        if room_bytes < 0 or not file.shares[number]:
            break
        chosen.add(number)
    for number in sorted(chosen):
        joins = not file.has_long_line and number - 1 in chosen
        ranges.append((ranges.pop()[0] if joins else number, number))
    return [window(first, last) for first, last in ranges]


def _candidate(path: str, made: str | None, content: str) -> _Candidate:
    return _Candidate(path, "semantic_match", "data" if made else _lane(path), content)


def _size(candidate: _Candidate) -> int:
    return len(_encode(candidate)) + _ID_BYTES


def _sum(candidates: Sequence[_Candidate]) -> int:
    return sum(map(_size, candidates))


def _lane(path: str) -> str:
    ending = Path(path).suffix.lower()
    if is_test(path):
        return "tests"
    return "docs" if ending in PROSE else "data" if ending in _DATA else "code"
