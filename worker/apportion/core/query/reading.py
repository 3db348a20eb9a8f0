"""Reading of contents: their passages, and the terms of each passage."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from apportion.core.arrays import NDArray, np
from apportion.core.query.passages import ContentTerms, Passages, passages_of
from apportion.core.query.terms import ENTRY, read_terms, stem_entries

_READ_CHARACTERS = 1 << 20
"""The characters that are read at once; reading takes 40 times their size in memory."""


def read_contents(
    contents: Sequence[str],
    passage_characters: Sequence[int],
    line_characters: Sequence[int] | None = None,
    *,
    stems: bool = False,
) -> list[ContentTerms]:
    """Return the terms of contents, none empty, in passages of at most these sizes (0: one passage).

    Lines of more than `line_characters` are cut; by default that is the size of the passages. With `stems`,
    terms are stems.

    The time is linear in their length. Ten thousand small contents take as long as a large one.
    """
    passages = list(map(passages_of, contents, passage_characters, line_characters or passage_characters))
    found: list[ContentTerms] = []
    for group in groups_of(list(map(len, contents)), _READ_CHARACTERS):
        found += _read_group(contents[group], passages[group], stems=stems)
    return found


def groups_of(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Yield slices of neighbours. A slice ends as soon as its sizes add up to more than `most`."""
    first = total = 0
    for end, size in enumerate(sizes, 1):
        total += size
        if total > most or end == len(sizes):
            yield slice(first, end)
            first, total = end, 0


def _read_group(contents: Sequence[str], passages: Sequence[Passages], *, stems: bool) -> list[ContentTerms]:
    text, bounds, firsts = _text_of_all(contents, passages)
    table = read_terms(text, bounds)
    if stems:
        stem_entries(table.parts, table.plain)
        stem_entries(table.joined, table.plain)
    first_pieces = np.asarray(firsts)
    plain_bounds = table.plain_bounds[first_pieces]
    parts, joined = (
        _by_content(entries, first_pieces, plain_bounds) for entries in (table.parts, table.joined)
    )
    runs, ends = table.runs.tolist(), plain_bounds.tolist()
    return [
        ContentTerms(cut, runs[first:end], single + of_runs, table.plain[plain_first:plain_end])
        for cut, (first, end), single, of_runs, (plain_first, plain_end) in zip(
            passages, pairwise(firsts), parts, joined, pairwise(ends), strict=True
        )
    ]


def _text_of_all(contents: Sequence[str], passages: Sequence[Passages]) -> tuple[bytes, list[int], list[int]]:
    """Return the joined contents in UTF-8, the bounds of passages, and the first of each content."""
    # so each passage ends with an LF
    texts = [content.encode() if content[-1] == "\n" else content.encode() + b"\n" for content in contents]
    bounds, firsts = [0], [0]
    for content, text, cut in zip(contents, texts, passages, strict=True):
        begin = bounds[-1]
        if len(cut) > 1:
            bounds += [begin + offset for offset in _offsets_bytes(content, cut)[1:-1]]
        bounds.append(begin + len(text))
        firsts.append(len(bounds) - 1)
    return b"".join(texts), bounds, firsts


def _offsets_bytes(content: str, passages: Passages) -> Sequence[int]:
    if content.isascii():
        return passages.offsets
    sizes = [len(content[first:end].encode()) for first, end in pairwise(passages.offsets)]
    return list(accumulate(sizes, initial=0))


def _by_content(
    entries: NDArray[np.void],
    first_pieces: NDArray[np.int64],
    plain_bounds: NDArray[np.int64],
) -> list[bytes]:
    """Return the entries of each content, with `start` and `piece` relative to it; changes `entries`."""
    bounds = np.searchsorted(entries["piece"], first_pieces)
    numbers = np.diff(bounds)
    entries["start"] -= np.repeat(plain_bounds[:-1], numbers).astype(np.uint32)
    entries["piece"] -= np.repeat(first_pieces[:-1], numbers).astype(np.uint32)
    raw = entries.tobytes()
    size = ENTRY.itemsize
    return [raw[first * size : end * size] for first, end in pairwise(bounds.tolist())]
