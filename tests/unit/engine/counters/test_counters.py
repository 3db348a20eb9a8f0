"""The exact counters against tiktoken and against published values; the estimators by example."""

import argparse
import binascii
import gzip
import hashlib
import importlib
import random
import re
import subprocess
import sys
import typing
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import tiktoken
from tiktoken._educational import SimpleBytePairEncoding
from tools.compare_counts import ASCII, OTHERS, differences, runs, strings, vocabulary
from tools.vocabularies import files, rank_file, tokens_of

from apportion.core.text.tokens import CounterName, ModelCounter
from apportion.engine.counters import COUNTERS, bpe, exact_counter

EXACT = ("o200k_base", "cl100k_base")
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|endofprompt|>",
    "<|fim_prefix|>",
    "<|im_start|>",
    "<|",
    "|>",
    "endoftext",
)
WHITE = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2000\u2009\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
CONTRACTIONS = (
    "'s",
    "'S",
    "'re",
    "'LL",
    "'ve",
    "'m",
    "'d",
    "'t",
    "''s",
    "\u2019s",
    "'\u017f",
    "'\u212a",
    "'",
)
WORDS = ("we", "IT", "Él", "Hammond", "deroids", "kapsam", "names", "summit", "ß", " ", "1")
EMOJI = (
    "👩\u200d👩\u200d👧\u200d👦",
    "👩🏽\u200d💻",
    "❤\ufe0f\u200d🔥",
    "🏳\ufe0f\u200d🌈",
    "🇦🇶",
    "1\ufe0f\u20e3",
    "🏽",
)
MARKS = ("e\u0301", "o\u0308\u0323", "\u0301", "\u200d", "\ufe0f", "\u200f", "\u202e", "שלום", "مرحبا")
LANGUAGES = (
    "The quick brown fox jumps over the lazy dog; it wasn't hers, they'll say. ",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. ",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ",
    "いろはにほへとちりぬるを、お誕生日おめでとう。",
    "我能吞下玻璃而不伤身体。中华人民共和国。",
    "키스의 고유조건은 입술끼리 만나야 하고. ",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण। ",
    "نص حكيم له سر قاطع وذو شأن عظيم ١٢٣٤٥. ",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. ",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ",
)


def _by_category() -> list[list[str]]:
    chars = defaultdict(list)
    for char in map(chr, range(sys.maxunicode + 1)):
        chars[unicodedata.category(char)].append(char)
    del chars["Cs"]  # surrogates are no characters
    return list(chars.values())


CATEGORIES = _by_category()
SOURCES = tuple(Path(module.__file__ or "").read_text("utf-8") for module in (argparse, typing, random, gzip))


def _slice(rng: random.Random, text: str, length_max: int) -> str:
    start = rng.randrange(len(text))
    return text[start : start + rng.randint(1, length_max)]


def _drawn(rng: random.Random, parts: typing.Sequence[str], length_max: int) -> str:
    return "".join(rng.choices(parts, k=rng.randint(1, length_max)))


FAMILIES: dict[str, tuple[int, Callable[[random.Random], str]]] = {
    "source code": (2000, lambda rng: _slice(rng, rng.choice(SOURCES), 1500)),
    "languages": (1000, lambda rng: _slice(rng, "".join(rng.choices(LANGUAGES, k=3)), 120)),
    # every category as often as any other, so that the rare ones are met
    "any Unicode": (2500, lambda rng: "".join(rng.choice(rng.choice(CATEGORIES)) for _ in range(20))),
    "special tokens": (500, lambda rng: _drawn(rng, (*SPECIAL_TOKENS, " ", "x", "\n"), 10)),
    "white space": (1500, lambda rng: rng.choice("a!1 ") + _drawn(rng, WHITE, 20) + rng.choice("a!1 ")),
    "digits and signs": (700, lambda rng: _drawn(rng, "0123456789+-*/=.,_()[]{}!?#$%^&|\\<>~@`\"' ", 60)),
    "contractions": (900, lambda rng: _drawn(rng, (*CONTRACTIONS, *WORDS), 15)),
    "one character": (300, lambda rng: rng.choice("aAzé中 \n\t\r!1_-=\0'/🏽\u0301") * rng.randint(1, 1500)),
    "line ends and NUL": (700, lambda rng: _drawn(rng, ("\r\n", "\n", "\r", "\0", "x", " ", "/", ";"), 40)),
    "emoji and marks": (700, lambda rng: _drawn(rng, (*EMOJI, *MARKS, "a", " "), 15)),
    # rulers: long runs are counted by their repeated parts (`apportion.engine.counters.runs`)
    "long runs": (
        3000,
        lambda rng: "".join(
            rng.choice("-=/*#\t") * rng.choice((1, 2, rng.randint(60, 200), rng.randint(128, 900)))
            + rng.choice(("", " ", "\n", "\r\n", "a", "1", ".", " *", "-\n", "\t", "é", "─", "<!--", "'s"))
            for _ in range(rng.randint(1, 8))
        ),
    ),
    # implementations change their algorithm at some length of a piece
    "long pieces": (
        400,
        lambda rng: _drawn(rng, rng.choice(("ab", "ACGT", "etaoinshr", "的一是不了人我")), 1500),
    ),
}


def _texts(family: str) -> list[str]:
    number, draw = FAMILIES[family]
    rng = random.Random(family)  # noqa: S311 - the same texts in every run, not a secret
    return [draw(rng) for _ in range(number)]


def _published_ranks(url: str, expected_hash: str) -> dict[bytes, int]:
    """Replace tiktoken's download by the wheel's rank file, checked against the hash published by OpenAI."""
    data = rank_file(url.rsplit("/", 1)[1].removesuffix(".tiktoken"))
    assert hashlib.sha256(data).hexdigest() == expected_hash
    lines = (line.split() for line in data.splitlines())
    return {binascii.a2b_base64(token): int(rank) for token, rank in lines}


@pytest.fixture(scope="module", params=EXACT)
def reference(request: pytest.FixtureRequest) -> tiktoken.Encoding:
    """Build tiktoken's own encoding: its pattern and its merging, a second implementation."""
    published = importlib.import_module("tiktoken_ext.openai_public")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "load_tiktoken_bpe", _published_ranks)
        return tiktoken.Encoding(**getattr(published, request.param)())


def test_more_than_ten_thousand_texts_are_compared() -> None:
    assert len({text for family in FAMILIES for text in _texts(family)}) > 10_000


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exact_count_is_the_number_of_tokens_that_tiktoken_gives(
    reference: tiktoken.Encoding, family: str
) -> None:
    texts = _texts(family)
    counts = exact_counter(reference.name).count_many(texts)
    expected = [len(reference.encode_ordinary(text)) for text in texts]
    different = [pair for pair in zip(texts, counts, expected, strict=True) if pair[1] != pair[2]]
    assert different == []


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"one character", "long pieces", "long runs"}))
def test_an_exact_count_equals_the_plain_algorithm_in_python(
    reference: tiktoken.Encoding, family: str
) -> None:
    """tiktoken's teaching version shares no code with either engine, but is quadratic in a piece's length."""
    plain = SimpleBytePairEncoding(pat_str=reference._pat_str, mergeable_ranks=reference._mergeable_ranks)
    for text in _texts(family)[::3]:
        assert exact_counter(reference.name).count(text) == len(plain.encode(text, visualise=None))


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, " " * 200_000 + "x", "etaoin" * 33_333, "\r\n" * 100_000, "中" * 200_000, "-" * 200_000],
)
def test_a_very_long_line_without_a_break_is_counted(reference: tiktoken.Encoding, text: str) -> None:
    assert exact_counter(reference.name).count(text) == len(reference.encode_ordinary(text))


@pytest.mark.parametrize(
    ("text", "o200k_base", "cl100k_base"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("Hello, world!", 4, 4),
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        ("<|endoftext|>", 7, 7),
        ("\0", 1, 1),
    ],
)
def test_known_texts_have_their_published_counts(text: str, o200k_base: int, cl100k_base: int) -> None:
    assert [exact_counter(name).count(text) for name in EXACT] == [o200k_base, cl100k_base]


@pytest.mark.parametrize(
    "text", ["d'\u017f'msu", "\u00df'\u017f'renm", "s'\u017f'LLe", "\u088f's", "(\U00032696't"]
)
def test_texts_that_the_tokenizer_alone_miscounts_are_counted_as_tiktoken_does(
    reference: tiktoken.Encoding, text: str
) -> None:
    """Only toktok-rs differs: `(?i:'s)` matches U+017F, and letters follow Unicode 16 (ADR 3)."""
    assert exact_counter(reference.name).count(text) == len(reference.encode_ordinary(text))


def test_the_digest_covers_the_pattern_that_tiktoken_publishes(reference: tiktoken.Encoding) -> None:
    assert bpe.PATTERNS[reference.name] == reference._pat_str


def test_the_digest_covers_the_rule_and_the_published_ranks(reference: tiktoken.Encoding) -> None:
    rule = f"{bpe.PATTERNS[reference.name]}\n{bpe.UNICODE_VERSION}\n".encode()
    digest = hashlib.sha256(rule + rank_file(reference.name)).hexdigest()
    assert exact_counter(reference.name).digest == f"sha256:{digest}"


def test_a_digest_names_one_vocabulary_permanently() -> None:
    assert [exact_counter(name).digest for name in EXACT] == [
        "sha256:001d14a90d51f68f9c24b892f5be5a83f68b2bad14bfe549d363324da519370b",
        "sha256:b8c43b21d44581602206fcce9ef6be6f2644089d625ce7c2f356404acd2f1588",
    ]


def test_letters_follow_the_unicode_version_of_the_digest() -> None:
    """A letter takes its contraction along; the first came with Unicode 16, the second with 17."""
    counter = exact_counter("o200k_base")
    assert bpe.UNICODE_VERSION == "16.0.0"
    assert counter.count("\u1c89's") == counter.count("\u1c89") + 1
    assert counter.count("\u088f's") == counter.count("\u088f") + 2


@pytest.mark.parametrize("name", EXACT)
def test_a_lone_surrogate_is_no_text(name: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        exact_counter(name).count("\ud800")


def test_a_missing_wheel_is_an_error_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toktok._toktok", None)
    with pytest.raises(ImportError, match="install toktok-rs"):
        bpe.load_tokenizer.__wrapped__("o200k_base")


def test_importing_the_counters_loads_no_vocabulary() -> None:
    code = "import sys, apportion.engine.counters; print([name for name in sys.modules if 'toktok' in name])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    assert run.stdout == "[]\n"


def test_the_vocabulary_files_are_made_from_the_published_ranks_and_unicode_16() -> None:
    stale = [name for name, data in files().items() if (bpe.VOCABULARIES / name).read_bytes() != data]
    assert not stale, "run: python -m tools.vocabularies"


@pytest.mark.parametrize(("encoding", "merging"), [("o200k_base", [b" I'"]), ("cl100k_base", [])])
def test_a_word_merges_with_an_apostrophe_and_a_long_s_only_where_that_is_known(
    encoding: str, merging: list[bytes]
) -> None:
    """A token across the apostrophe would have the end of a word, and then the apostrophe or more."""
    across = re.compile(rb"[A-Za-z\x80-\xff]'(\xc5|$)")
    assert [token for token in tokens_of(encoding) if across.search(token)] == merging


@pytest.mark.parametrize("encoding", EXACT)
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(lambda _: strings(ASCII, 4), id="strings over the classes of ASCII"),
        pytest.param(lambda _: strings(ASCII + OTHERS, 3), id="strings over all classes"),
        pytest.param(lambda encoding: vocabulary(encoding, 300), id="tokens and pairs of them"),
        pytest.param(lambda _: runs(5_000, 200), id="runs and mixtures"),
    ],
)
def test_counts_equal_an_independent_engines_counts(
    encoding: str, texts: Callable[[str], Iterable[str]]
) -> None:
    """The short form of the comparison in ADR 3."""
    assert [text for text in differences(encoding, texts(encoding)) if text is not None] == []


@pytest.mark.parametrize(
    "long_s", ["'\u017f", " I'\u017f", "a'\u017f", "a'\u017f'\u017f", "\t\t'\u017f", "\U0001e900'\u017f-"]
)
@pytest.mark.parametrize("around", ["", "x", "-" * 200, "\u4e2d", "\U0001f600 "])
def test_a_contraction_with_a_long_s_is_counted_as_tiktoken_does(
    reference: tiktoken.Encoding, long_s: str, around: str
) -> None:
    text = around + long_s * 3 + around
    assert exact_counter(reference.name).count_many(["", text]) == [0, len(reference.encode_ordinary(text))]


def test_every_counter_that_a_policy_may_name_is_there_under_its_name() -> None:
    names = [*CounterName, *ModelCounter]
    assert [counter.name for counter in COUNTERS.values()] == names
    assert len({counter.digest for counter in COUNTERS.values()}) == len(names)


def test_no_counter_answers_to_another_name() -> None:
    for name in ("o200k", "gpt-4o", "words", ""):
        with pytest.raises(KeyError):
            COUNTERS[name]
        with pytest.raises(KeyError):
            exact_counter(name)


def test_an_exact_counter_loads_once() -> None:
    assert COUNTERS["o200k_base"] is exact_counter("o200k_base")


@pytest.mark.parametrize("name", CounterName)
def test_many_texts_are_counted_in_their_order(name: CounterName) -> None:
    counter = COUNTERS[name]
    assert counter.count_many(LANGUAGES) == [counter.count(text) for text in LANGUAGES]
    assert counter.count_many(()) == []


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("👩🏽x\0é", 2)])
def test_chars4_is_a_quarter_of_the_code_points_rounded_up(text: str, tokens: int) -> None:
    assert COUNTERS["chars4"].count(text) == tokens


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("中中", 2), ("👩🏽x", 3)])
def test_bytes4_is_a_quarter_of_the_utf8_bytes_rounded_up(text: str, tokens: int) -> None:
    assert COUNTERS["bytes4"].count(text) == tokens


@pytest.mark.parametrize(
    ("words", "tokens"), [(0, 0), (1, 2), (2, 3), (3, 4), (4, 6), (10, 13), (20, 26), (100, 130)]
)
def test_words13_is_thirteen_tenths_of_the_words_rounded_up(words: int, tokens: int) -> None:
    assert COUNTERS["words1.3"].count(" \n".join(["word"] * words)) == tokens


WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)


def test_words_end_at_unicode_white_space_and_nowhere_else() -> None:
    count = COUNTERS["words1.3"].count
    one, two = count("word"), count("two words")
    chars = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) != "Cs"]
    assert "".join(char for char in chars if count(f"a{char}b") == two) == WHITE_SPACE
    assert {count(f"a{char}b") for char in chars if char not in WHITE_SPACE} == {one}
    assert count(f"{WHITE_SPACE}a{WHITE_SPACE}") == one
