"""The vocabulary files of the exact counters, made from the published ranks and from Unicode 16.

`python -m tools.vocabularies` writes them to `worker/apportion/engine/counters/`. The files are in the format
of toktok-rs 0.3.0, which has these tables compiled in, too, but with the character classes of Unicode 17.
"""

import base64
import gzip
import struct
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import unicodedata2

from apportion.core.text.characters import WHITE_SPACE
from apportion.engine.counters.bpe import UNICODE_VERSION, VOCABULARIES

_LETTERS = {"Lu", "Ll", "Lt", "Lm", "Lo"}
_MARKS = {"Mn", "Mc", "Me"}
_NUMBERS = {"Nd", "Nl", "No"}
_UPPER = (_LETTERS - {"Ll"}) | _MARKS
_LOWER = (_LETTERS - {"Lu", "Lt"}) | _MARKS
SURROGATES = range(0xD800, 0xE000)


def files() -> Mapping[str, bytes]:
    """Return each vocabulary file by its name."""
    assert unicodedata2.unidata_version == UNICODE_VERSION
    category = {chr(n): unicodedata2.category(chr(n)) for n in range(sys.maxunicode + 1)}

    def characters(categories: set[str]) -> bytes:
        return _ranges(char for char, own in category.items() if own in categories)

    shared = characters(_LETTERS) + characters(_NUMBERS) + _ranges(sorted(WHITE_SPACE))
    return {
        "o200k.vocab": vocabulary("o200k_base"),
        "cl100k.vocab": vocabulary("cl100k_base"),
        "uniclass.bin": shared,
        "uniclass_o200k.bin": shared + characters(_UPPER) + characters(_LOWER),
    }


def rank_file(encoding: str) -> bytes:
    """Return the rank file that OpenAI publishes for an encoding, as bpe-openai 0.1.4 has it."""
    package = find_spec("bpe_openai")
    assert package is not None
    assert package.origin is not None
    return gzip.decompress((Path(package.origin).with_name("data") / f"{encoding}.tiktoken.gz").read_bytes())


def vocabulary(encoding: str) -> bytes:
    """Return the tokens of an encoding: their number, then each with its length, its bytes and its rank."""
    tokens = tokens_of(encoding)
    entries = (struct.pack(f"<H{len(token)}sI", len(token), token, rank) for rank, token in enumerate(tokens))
    return struct.pack("<I", len(tokens)) + b"".join(entries)


def tokens_of(encoding: str) -> list[bytes]:
    """Return the tokens of an encoding in the order of their ranks, which begin at 0 and have no gap."""
    lines = (line.split() for line in rank_file(encoding).splitlines())
    ranks = {int(rank): base64.b64decode(token) for token, rank in lines}
    return [ranks[rank] for rank in range(len(ranks))]


def _ranges(chars: Iterable[str]) -> bytes:
    """Return sorted characters as ranges: their number, then the first and the last code point of each."""
    points = [ord(char) for char in chars if ord(char) not in SURROGATES]
    firsts = points[:1] + [point for before, point in pairwise(points) if point != before + 1]
    lasts = [before for before, point in pairwise(points) if point != before + 1] + points[-1:]
    pairs = (struct.pack("<II", first, last) for first, last in zip(firsts, lasts, strict=True))
    return struct.pack("<I", len(firsts)) + b"".join(pairs)


def main() -> None:
    """Write all files."""
    VOCABULARIES.mkdir(exist_ok=True)
    for name, data in files().items():
        (VOCABULARIES / name).write_bytes(data)


if __name__ == "__main__":
    main()
