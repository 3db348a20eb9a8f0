"""The invariants of shrinking, for any text: within the target, never empty, never larger, the same again."""

import re
from typing import ClassVar

import pytest
from hypothesis import example, given, settings, target
from hypothesis import strategies as st
from tree_sitter import Parser, Point

from apportion.core.shrink import Ladder, Parsing, ShrinkStrategy, ladder, metered, syntax
from apportion.core.shrink.parsing import PARSED_MAX_CHARACTERS
from apportion.core.text.tokens import ESTIMATORS, CounterName
from apportion.engine.counters import COUNTERS

SHRINKING = [strategy for strategy in ShrinkStrategy if strategy is not ShrinkStrategy.NEVER]
LANGUAGES = ("c", "go", "java", "javascript", "python", "rust", "tsx", "typescript", "cobol")
BLANK = " \t\r\n"
MARKERS = (" omitted]", " collapsed to ")
OMITTED = re.compile(r"[ \n]?\[\.\.\. \d+ (?:earlier |later )?(?:lines|characters|entries) omitted\]")
PIECES = (
    "a", " ", "\n", "\n\n", "\r\n", "\r", "\t", "\0", "é", "e\u0301", "👩\u200d👩\u200d👧", "שלום", "漢字",
    "\u2028", "word ", "x" * 50, "@@ -1,2 +1,2 @@\n", "--- a\n+++ b\n", "+added\n", "-removed\n",
    "a -> b\n", "c imports d, e\n", "import f\n", " -> ", ",", "# a comment\n", "// one\n", "/* two\n", " */",
    '"""', "'", "`", "{", "}", "(", ")", ";", "class A {\n", "class B:\n", "def f(a):\n    ", "return 1\n",
    "function f(a) {\n", "fn f() {\n", "func f() {\n", "int f(void) {\n", "(a) => {\n", "x = call_it(y);\n",
    "def f(a):\n    b = call_it(a)\n    return b + 1\n",
    "function f(a) {\n  const b = call(a);\n  return b;\n}\n",
    "class A {\n  int f(int a) {\n    int b = call(a);\n    return b + 1;\n  }\n}\n",
    "func F(a int) int {\n\tb := call(a)\n\treturn b + 1\n}\n",
    "fn f(a: i32) -> i32 {\n    let b = call(a);\n    b + 1\n}\n",
)  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=80).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200
)
strategies = st.sampled_from(SHRINKING)
languages = st.sampled_from(LANGUAGES)


def ladder_of(strategy: ShrinkStrategy, text: str, counter: str, language: str = "python") -> Ladder:
    found = ladder(strategy, text, COUNTERS[counter].count, language)
    assert found is not None
    return found


@settings(max_examples=300, deadline=None)
@given(strategies, texts, st.sampled_from(list(CounterName)), languages, st.integers(1, 400))
def test_a_form_has_its_stated_cost_within_the_target(
    strategy: ShrinkStrategy, text: str, counter: CounterName, language: str, target: int
) -> None:
    found = ladder_of(strategy, text, counter, language)
    form = found.within(target)
    if form is not None:
        assert COUNTERS[counter].count(form.text) == form.tokens <= target
        assert form.tokens <= found.whole.tokens
        assert form.text
        assert form is found.whole or any(marker in form.text for marker in MARKERS)


@settings(max_examples=200, deadline=None)
@given(strategies, texts, st.sampled_from(list(CounterName)), languages)
def test_the_smallest_form_is_found_and_costs_no_more_than_the_whole(
    strategy: ShrinkStrategy, text: str, counter: CounterName, language: str
) -> None:
    found = ladder_of(strategy, text, counter, language)
    smallest = found.smallest()
    assert COUNTERS[counter].count(smallest.text) == smallest.tokens <= found.whole.tokens
    assert smallest.text
    assert found.within(smallest.tokens) is not None


@settings(max_examples=200, deadline=None)
@given(strategies, texts, st.sampled_from([counter.name for counter in ESTIMATORS]), languages)
def test_a_larger_target_never_gives_a_smaller_form(
    strategy: ShrinkStrategy, text: str, counter: str, language: str
) -> None:
    found = ladder_of(strategy, text, counter, language)
    forms = [found.within(target) for target in range(1, min(found.whole.tokens, 80) + 1)]
    tokens = [0 if form is None else form.tokens for form in forms]
    assert tokens == sorted(tokens)


@settings(max_examples=200, deadline=None)
@given(strategies, texts, languages, st.integers(1, 100))
def test_the_same_text_gives_the_same_form(
    strategy: ShrinkStrategy, text: str, language: str, target: int
) -> None:
    first = ladder_of(strategy, text, CounterName.O200K_BASE, language).within(target)
    assert ladder_of(strategy, text, CounterName.O200K_BASE, language).within(target) == first


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([ShrinkStrategy.TRUNCATE_OLDEST, ShrinkStrategy.DROP_ENTRIES]), texts)
def test_the_text_below_the_marker_is_the_end_of_the_original(strategy: ShrinkStrategy, text: str) -> None:
    body = text.rstrip(BLANK) or text
    for rung in ladder_of(strategy, text, CounterName.CHARS4).rungs:
        for kept in range(1, rung.size + 1):
            above, _, below = rung.render(kept).partition(" omitted]\n")
            assert body.endswith(below.removeprefix("\n"))
            assert below
            assert all(f"{line}\n" in body for line in above.split("\n")[:-1])


@settings(max_examples=300, deadline=None)
@given(strategies.filter(lambda strategy: strategy is not ShrinkStrategy.COLLAPSE_SUMMARY), texts, languages)
def test_remaining_pieces_keep_the_order_of_the_text(
    strategy: ShrinkStrategy, text: str, language: str
) -> None:
    for rung in ladder_of(strategy, text, CounterName.CHARS4, language).rungs:
        for kept in range(1, rung.size + 1):
            place = 0
            for piece in map(str.strip, OMITTED.split(rung.render(kept))):
                place = text.index(piece, place) + len(piece)


@pytest.mark.parametrize("counter", list(CounterName))
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 200_000, id="letters"),
        pytest.param("👩\u200d👩\u200d👧\u200d👦" * 2_000, id="emoji"),
        pytest.param("שלום עולם " * 3_000, id="hebrew"),
        pytest.param("漢字仮名" * 5_000, id="han"),
        pytest.param("\0" * 9_000, id="nul"),
        pytest.param("line\r\n" * 9_000, id="crlf"),
        pytest.param("e" + "\u0301" * 9_000, id="marks"),
        pytest.param("\n" * 50_000, id="line ends"),
        pytest.param("a\n\n" * 20_000, id="entries"),
        pytest.param("@@ -1 +1 @@\n+a\n" * 5_000, id="hunks"),
        pytest.param("{(" * 8_000, id="braces"),
        pytest.param("a -> b\n" * 9_000, id="edges"),
        pytest.param("def f():\n  a(b, c)\n" * 800, id="functions"),
    ],
)
def test_hostile_text_shrinks_to_a_small_target(text: str, counter: CounterName) -> None:
    for strategy in SHRINKING:
        found = ladder_of(strategy, text, counter)
        form = found.within(100)
        assert form is not None
        assert COUNTERS[counter].count(form.text) == form.tokens <= 100
        assert form.text


class Watched(metered.Meter):
    """A meter that is recorded with the size of its source."""

    made: ClassVar[list["Watched"]] = []

    def __init__(self, source: bytes, parser: Parser) -> None:
        super().__init__(source, parser)
        self.bytes = len(source)
        self.made.append(self)


HOSTILE = (
    "(a*)", "a<", "->", "!}", "|-", "a=\n>", "\n/*", "(/*", "int a (/*", "a)=>", "[", "{(", ";", "x\n", '"',
    "`", "${", "&!->", "a,", "/*", "*)", "}", "?", "def f(", "class A ", "if a ", "lambda a:", "é", "#if a\n",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([name for name in LANGUAGES if name != "cobol"]),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4).map("".join),
    st.sampled_from([500, 2_000, PARSED_MAX_CHARACTERS]),
)
@example("python", "(a*)", PARSED_MAX_CHARACTERS)
@example("typescript", "a=\n>", PARSED_MAX_CHARACTERS)
@example("java", "a<", PARSED_MAX_CHARACTERS)
@example("go", "int a (/*", PARSED_MAX_CHARACTERS)
@example("rust", "->", PARSED_MAX_CHARACTERS)
@example("python", "/*\n\n\n", PARSED_MAX_CHARACTERS)
@example("typescript", "type A=", PARSED_MAX_CHARACTERS)
def test_hostile_code_is_not_parsed_on(language: str, unit: str, characters: int) -> None:
    text = (unit * characters)[:characters]
    Watched.made.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metered, "Meter", Watched)
        syntax.outline(language, text, Parsing())
    assert 1 <= len(Watched.made) <= 2
    target(max(spent.reports / spent.bytes for spent in Watched.made), label="reports a byte")
    target(max(spent.reads / spent.bytes for spent in Watched.made), label="reads a byte")
    for spent in Watched.made:
        assert spent.reports <= 13 + spent.bytes // 32
        assert spent.reads <= 2 * 45 * (8 + spent.bytes // 128)


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("character", ["é", "漢", "👩"])
def test_a_chunk_of_a_source_ends_with_a_character(character: str, shift: int) -> None:
    source = ("a" * shift + character * 500).encode()
    meter, offset = metered.Meter(source, Parser()), 0
    while chunk := bytes(meter.read(offset, Point(0, 0))):
        assert chunk.decode()
        offset += len(chunk)
    assert offset == len(source)


def test_parsing_a_pathological_text_ends_without_a_crash() -> None:
    text = ("a<if a /*é{(a," * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
    assert syntax.outline("typescript", text, Parsing()) is None


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "cobol"])
def test_a_parse_that_was_stopped_leaves_no_trace(language: str) -> None:
    code = "".join(piece for piece in PIECES if "call" in piece and "\n" in piece)
    before = syntax.outline(language, code, Parsing())
    hostile = ("->!}(a*)" * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
    assert syntax.outline(language, hostile, Parsing()) is None
    assert syntax.outline(language, code, Parsing()) == before


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("c", "static int f(int a) {\n    int b = g(a);\n    return b + 1;\n}\n"),
        ("go", "func F(a int) (int, error) {\n\tb := g(a)\n\treturn b + 1, nil\n}\n"),
        ("java", "class A {\n  int f(int a) {\n    int b = g(a);\n    return b + 1;\n  }\n}\n"),
        ("javascript", "const f = (a) => {\n  const b = g(a);\n  return b + 1;\n};\n"),
        ("python", "def f(a):\n    b = g(a)\n    return b + 1\n"),
        ("rust", "fn f(a: i32) -> i32 {\n    let b = g(a);\n    b + 1\n}\n"),
        ("tsx", "const F = (a: number) => {\n  return <p>{g(a)}</p>;\n};\n"),
        ("typescript", "export function f(a: number): number {\n  const b = g(a);\n  return b + 1;\n}\n"),
    ],
)
def test_dense_code_of_the_greatest_length_is_parsed(language: str, code: str) -> None:
    text = code * (PARSED_MAX_CHARACTERS // len(code))
    found = syntax.outline(language, text, Parsing())
    assert found is not None
    assert len(found.bodies) == text.count(code)


@pytest.mark.parametrize(
    ("strategy", "unit"),
    [
        (ShrinkStrategy.TRUNCATE_OLDEST, "@@ -1 +1 @@\n+a\n"),
        (ShrinkStrategy.TRUNCATE_OLDEST, "--- a\n+++ b\n@@ -1 +1 @@\n+a\n"),
        (ShrinkStrategy.TRUNCATE_OLDEST, "a\n"),
        (ShrinkStrategy.DROP_ENTRIES, "a\n\n"),
        (ShrinkStrategy.COLLAPSE_SUMMARY, "{0} -> {0}b\n"),
        (ShrinkStrategy.COLLAPSE_SUMMARY, "a uses {0}, {0}b"),
    ],
)
def test_the_largest_form_is_found_in_few_counts(strategy: ShrinkStrategy, unit: str) -> None:
    text = "".join(unit.format(number) for number in range(20_000))
    counted: list[int] = []

    def count(form: str) -> int:
        counted.append(len(form))
        return len(form)

    found = ladder(strategy, text, count)
    assert found is not None
    for target_tokens in (len(text) // 2, len(text) // 50, 200):
        counted.clear()
        found.within(target_tokens)
        assert len(counted) <= len(found.rungs) * (1 + len(text).bit_length())
        assert max(counted) <= len(text) + 100
