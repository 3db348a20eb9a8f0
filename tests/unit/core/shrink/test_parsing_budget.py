"""The parsing budget of a request: unlimited for code without errors, bounded for hostile texts."""

import argparse
from pathlib import Path
from random import Random

import pytest
from support.composing import answer, candidate, lanes_policy, request
from tree_sitter import Parser

from apportion.core.shrink import Parsing, ShrinkStrategy, ladder, metered, syntax
from apportion.core.shrink.parsing import PARSED_MAX_CHARACTERS, WORK_MAX

STOPPED = "(a*)" * (PARSED_MAX_CHARACTERS // 4)
COPIED = ("/*\n\n\n" * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
"""At its end, which nothing can stop, it would be copied once more for each way to read it: 0.9 s."""
CODE = "def f(a):\n    call_something_that_is_long_enough()\n    return a\n"
WHOLE_CODE = CODE * (PARSED_MAX_CHARACTERS // len(CODE))


def parsed(
    monkeypatch: pytest.MonkeyPatch, parsing: Parsing, texts: list[str], language: str = "python"
) -> list[bool]:
    """Return for each text whether one request still parses it, after the texts before."""
    calls: list[str] = []
    outline = syntax.outline

    def watched(language: str, text: str, parsing: Parsing) -> syntax.Outline | None:
        calls.append(text)
        return outline(language, text, parsing)

    monkeypatch.setattr(syntax, "outline", watched)
    told = []
    for text in texts:
        before = len(calls)
        ladder(ShrinkStrategy.KEEP_SIGNATURES, text, len, language, None, parsing)
        told.append(len(calls) > before)
    return told


def given_up(seed: int) -> str:
    """Return a text with very many possible error recoveries: parsing takes 0.5 s unless stopped."""
    random = Random(seed)  # noqa: S311 - the same texts every run is the point
    units = ("a=\n>", "int a (/*", "`", "/*")
    return "".join(random.choice(units) for _ in range(PARSED_MAX_CHARACTERS))[:PARSED_MAX_CHARACTERS]


def test_parsing_ends_after_four_stopped_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(monkeypatch, Parsing(), [STOPPED] * 8 + [CODE]) == [True] * 4 + [False] * 5


class Watched(metered.Meter):
    """A meter that keeps how far the parser came."""

    def __init__(self, source: bytes, parser: Parser) -> None:
        super().__init__(source, parser)
        self.furthest = 0

    def is_spent(self, offset: int, in_error: bool) -> bool:  # noqa: FBT001 - tree-sitter's signature
        self.furthest = max(self.furthest, offset)
        return super().is_spent(offset, in_error)


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """Return a list that collects the meters of all parses."""
    kept: list[Watched] = []

    def made(source: bytes, parser: Parser) -> Watched:
        kept.append(Watched(source, parser))
        return kept[-1]

    monkeypatch.setattr(metered, "Meter", made)
    return kept


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_text_with_too_many_error_recoveries_is_stopped(meters: list[Watched], seed: int) -> None:
    parsing = Parsing()
    assert syntax.outline("python", given_up(seed), parsing) is None
    [meter] = meters
    assert metered.WAYS_MAX < meter.ways_given_up < 4 * metered.WAYS_MAX
    assert WORK_MAX // 4 < parsing.work < WORK_MAX // 3


@pytest.mark.parametrize(
    ("language", "unit"),
    [("python", "/*\n\n\n"), ("python", "/*abcdefghijklmnop "), ("typescript", "type A=")],
)
def test_a_text_that_can_be_read_in_many_ways_is_stopped_before_its_end(
    meters: list[Watched], language: str, unit: str
) -> None:
    parsing = Parsing()
    text = (unit * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
    assert syntax.outline(language, text, parsing) is None
    [meter] = meters
    assert meter.ambiguity < 2_048
    assert meter.furthest < len(text) * 0.75
    assert WORK_MAX // 4 < parsing.work < WORK_MAX // 3


@pytest.mark.parametrize("characters", [200, 400, 1_000, 1_400, 1_800, 2_200, 2_600])
def test_texts_that_end_before_they_are_stopped_are_few_as_well(
    meters: list[Watched], characters: int
) -> None:
    parsing = Parsing()
    while not parsing.is_over:
        syntax.outline("python", COPIED[:characters], parsing)
    assert sum(meter.ambiguity for meter in meters) < 3_000
    assert sum(meter.reports for meter in meters) < 1 << 14


def test_very_short_texts_are_no_more_than_2048(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(parsed(monkeypatch, Parsing(), ["def f(a): return a\n"] * 3_000)) <= 2_048


@pytest.mark.parametrize(
    ("language", "unit", "texts"),
    [
        ("python", "/*\n\n\n", 4),
        ("python", "/*abcdefghijklmnop ", 4),
        ("typescript", "type A=", 4),
        ("javascript", '")', 1),
        ("rust", "|-", 4),
    ],
)
def test_a_request_parses_few_expensive_texts(language: str, unit: str, texts: int) -> None:
    text = (unit * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
    parsing, told = Parsing(), 0
    while not parsing.is_over:
        syntax.outline(language, text, parsing)
        told += 1
    assert told == texts


def test_short_texts_with_errors_cost_no_more_than_long_ones() -> None:
    parsing, told = Parsing(), 0
    while not parsing.is_over:
        syntax.outline("python", COPIED[:100], parsing)
        told += 1
    assert told * 100 < 10 * PARSED_MAX_CHARACTERS


def test_a_parse_after_a_stopped_parse_is_metered_from_zero() -> None:
    texts = [given_up(0), CODE + "def g(:\n" + CODE]
    alone = [Parsing(), Parsing()]
    together = Parsing()
    for text, parsing in zip(texts, alone, strict=True):
        syntax.outline("python", text, parsing)
        syntax.outline("python", text, together)
    assert together.work == sum(parsing.work for parsing in alone)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", WHOLE_CODE),
        ("python", "value = computed(1)\n" * 300),
        ("python", "# said\n" * 75),
        ("typescript", "const f = () => {\n  return [1, 2, 3];\n};\n" * 100),
    ],
)
def test_half_a_mebibyte_of_code_without_errors_is_parsed_however_dense(
    monkeypatch: pytest.MonkeyPatch, language: str, text: str
) -> None:
    number = (1 << 19) // len(text.encode())
    assert all(parsed(monkeypatch, Parsing(), [text] * number, language))


def test_code_with_errors_costs_its_length_and_skipped_text() -> None:
    text = CODE + "def g(:\n" + CODE
    few, more = Parsing(), Parsing()
    assert syntax.outline("python", text * 20, few) is not None
    assert syntax.outline("python", text * 40, more) is not None
    assert 2 * few.work < more.work < 4 * few.work


def test_a_hundred_symbols_that_were_cut_anywhere_are_all_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    source, random = Path(argparse.__file__).read_text(encoding="utf-8"), Random(1)  # noqa: S311 - likewise
    starts = [random.randrange(len(source) - 1_600) for _ in range(100)]
    assert all(parsed(monkeypatch, Parsing(), [source[start : start + 1_600] for start in starts]))


def test_which_texts_are_parsed_does_not_depend_on_the_order_of_candidates() -> None:
    hostile = [STOPPED[:-number] for number in range(1, 25)]
    ones = [
        candidate(
            f"c{number}",
            kind="symbol_context",
            lane="structure",
            content=text,
            language="python",
            relevance=number / 40,
            token_estimate=1,
        )
        for number, text in enumerate([*hostile[:6], WHOLE_CODE, *hostile[6:], WHOLE_CODE])
    ]
    policy = lanes_policy(
        lanes={"structure": {"priority": 0, "min_tokens": 0, "max_tokens": 10_000}}, budget_tokens=2_000
    )
    orders = (ones, ones[::-1], ones[9:] + ones[:9])
    assert len({answer(request(order), policy).composed.text for order in orders}) == 1
