"""Runs of one character, and the texts given to the engine. `test_counters` compares counts with tiktoken."""

import pytest

from apportion.engine.counters import bpe
from apportion.engine.counters.runs import RunCounter, Tokenizer

LENGTH = 1 << 17
ENCODINGS = ("o200k_base", "cl100k_base")
SIGNS = "-=/*#"
BETWEEN = ("", "a", " ", "\n", ".", "é", "*/", "/*", "-->", "\t")
LONG = 3 * 64
"""The longest run that the engine reads: three times the repeated token."""


class Heard:
    """An engine that records its inputs; optionally it treats no two tokens as neighbours."""

    def __init__(self, encoding: str, *, doubts: bool = False) -> None:
        self._tokenizer: Tokenizer = bpe.load_tokenizer(encoding)
        self._doubts = doubts
        self.decode_bytes = self._tokenizer.decode_bytes
        self.counted: list[str] = []
        self.encoded: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return self._tokenizer.count(text)

    def encode_ordinary(self, text: str) -> list[int]:
        self.encoded.append(text)
        tokens = self._tokenizer.encode_ordinary(text)
        return tokens[:1] if self._doubts and len(tokens) == 2 else tokens


def ruled(sign: str, length: int, between: str) -> str:
    return (sign * length + between) * (LENGTH // (length + len(between)))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sign", SIGNS)
def test_one_sign_over_and_over_is_hardly_read_by_the_engine(encoding: str, sign: str) -> None:
    engine = Heard(encoding)
    RunCounter(engine).count(sign * LENGTH)
    assert sum(map(len, (*engine.encoded, *engine.counted))) < 2_000


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("between", BETWEEN[1:])
@pytest.mark.parametrize("length", [200, 255, 700])
def test_the_engine_reads_no_long_run_of_a_ruler(encoding: str, between: str, length: int) -> None:
    engine = Heard(encoding)
    counter = RunCounter(engine)
    for sign in SIGNS:
        if sign not in between:
            counter.count(ruled(sign, length, between))
    read = [*engine.encoded, *engine.counted]
    long = [text for text in read if any(sign * LONG in text for sign in SIGNS)]
    assert len(long) <= 2 * len(SIGNS)  # how the encoding goes on after a sign is asked once
    assert max(map(len, long)) <= 4 * 64 + 1
    assert sum(map(len, read)) <= 1.1 * len(SIGNS) * LENGTH


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize(
    "length", [*range(30, 36), 47, 48, *range(126, 132), 190, 191, 192, 193, 256, 319, 320, 1_000]
)
def test_a_ruler_has_the_engines_count(encoding: str, between: str, length: int) -> None:
    engine = Heard(encoding)
    counter = RunCounter(engine)
    for sign in SIGNS:
        text = sign.join(("(", f"{between}{sign * length}{between}")) + "."
        assert counter.count(text) == engine.count(text)


@pytest.mark.parametrize(
    "text", ["-\n" + "/" * 300 + "*" * 40, "=\r" + "/" * 700 + "-->", "x\n" + "/" * 300 + "é"]
)
def test_slashes_after_a_line_end_may_join_the_text_before(text: str) -> None:
    engine = Heard("o200k_base")
    assert RunCounter(engine).count(text) == engine.count(text)


def test_a_text_is_counted_undivided_where_its_parts_do_not_fit() -> None:
    engine = Heard("o200k_base", doubts=True)
    text = ruled("-", 300, ".")
    assert RunCounter(engine).count(text) == engine.count(text)
    assert text in engine.encoded
    assert sum(map(len, engine.encoded)) < 2 * len(text)


@pytest.mark.parametrize("text", ["", "-" * 127, "a" * 10_000, "-=" * 10_000])
def test_a_text_without_a_long_run_is_counted_by_the_engine_alone(text: str) -> None:
    engine = Heard("o200k_base")
    RunCounter(engine).count(text)
    assert (engine.counted, engine.encoded) == ([text], [])
