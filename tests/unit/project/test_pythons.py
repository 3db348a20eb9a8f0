"""The same bytes under every Python: no rule of the core depends on the Unicode tables of one Python.

The required packages are built for the running Python, so no other Python can compose a whole event here.
Each installed Python from 3.11 to 3.14 applies the rules that need only the standard library: lower case,
white space, seams, cuts, estimators, shrinking (except parsed code), paths and their ids, globs, rounding.
The texts are the golden events, every code point, and unusual neighbours. A test reads the sources to check
that no other rule asks Python.
"""

import ast
import json
import re
import subprocess
import sys
from itertools import product
from typing import Any

import pytest
from support.commands import ROOT, SOURCES
from support.requiring import PYTHONS

from apportion.core.text.characters import SPACE_OR_SEPARATOR, WHITE_SPACE, lowered, words

ODD = ("a", "B", " ", "\t", "\n", "\r\n", "\n\n", "\v", "\x1c", "\x85", "\xa0", "\u200b", "\u2028", "\u3000",
       "\ufeff", "\0", "İ", "\u212a", "\u017f", "Σ", "É", "e\u0301", "漢", "👩\u200d👧", "\ua7cb",
       "\U00010d50", "\U0001e4d0", "/", "./", "*", "[!", "]", "-> ", "- ", "@@ -1 @@\n")  # fmt: skip
NUMBERS = (0, 0.0005, 0.0045, 0.1235, 1 / 3, 1.0005, 16779006.4185, 2**53 / 1000, 1e22, 5e-324)


def texts() -> list[str]:
    golden = (ROOT / "tests/golden/events.jsonl").read_bytes().splitlines()
    candidates = [one for event in map(json.loads, golden) for one in event.get("candidates", ())]
    every = "".join(chr(number) for number in range(sys.maxunicode + 1) if not 0xD800 <= number < 0xE000)
    return [
        *(candidate[key] for candidate in candidates for key in ("content", "path") if key in candidate),
        *(every[start : start + 256] for start in range(0, len(every), 256)),
        *map("".join, product(ODD, ODD)),
        *(f"one {odd}two {odd}\n{odd}three\n{odd}" for odd in ODD),
    ]


def made_of(given: bytes, interpreter: str) -> dict[str, str]:
    """Return an interpreter's results for texts and numbers: a digest for each rule."""
    script = ROOT / "tests/support/rules_over_text.py"
    command = [interpreter, "-I", "-B", str(script), str(SOURCES)]
    done = subprocess.run(command, input=given, capture_output=True, check=False)  # noqa: S603 - likewise
    assert done.returncode == 0, done.stderr.decode()
    digests: dict[str, str] = json.loads(done.stdout)
    return digests


def test_every_installed_python_makes_the_same_of_every_text() -> None:
    others = PYTHONS.require()
    given = json.dumps({"texts": texts(), "numbers": NUMBERS}, ensure_ascii=False).encode()
    ours = made_of(given, sys.executable)
    assert {other: made_of(given, other) for other in others} == dict.fromkeys(others, ours)


OF_STRINGS = {
    *("capitalize", "casefold", "lower", "swapcase", "title", "upper", "splitlines"),
    *("isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"),
    *("isspace", "istitle", "isupper", "strip", "lstrip", "rstrip", "split", "rsplit"),
}
"""Methods of strings that without an argument decide by Python's tables."""
OF_BYTES = {"cloudevents.py", "not_json.py", "terms.py"}
"""Modules that call these methods on bytes, which know only ASCII."""
OF_WORDS = "characters.py"
"""The module that splits words by the tables; their white space has not changed since 3.11."""
ESCAPES = re.compile(r"(?<!\\)(?:\\\\)*\\[bBdDsSwW]|\(\?[aLmsux]*i")
"""Parts of patterns that depend on Python's tables."""


def asked_of_python(source: str) -> list[int]:
    """Return the lines of a module that let Python's tables decide; docstrings decide nothing."""
    nodes: list[Any] = list(ast.walk(ast.parse(source)))
    docstrings = {
        node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [node.lineno for node in nodes if node not in docstrings and decides_by_tables(node)]


def decides_by_tables(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
            return name in OF_STRINGS
        case ast.Attribute(value=ast.Name(id="re"), attr=flag):
            return flag in {"I", "IGNORECASE"}
        case ast.Constant(value=str(text)):
            return ESCAPES.search(text) is not None
        case ast.Import(names=names):
            return any(name.name == "unicodedata" for name in names)
    return False


@pytest.mark.parametrize(
    "source",
    ["x.strip()", "x.lower()", "x.split()", "import unicodedata", "re.compile(r'\\s+')", "f'{x}\\\\w'",
     "re.compile('x', re.IGNORECASE)", "y = '(?i:x)'"],
)  # fmt: skip
def test_uses_of_pythons_tables_are_found(source: str) -> None:
    assert asked_of_python(source)


@pytest.mark.parametrize(
    "source", ["x.strip(' ')", "x.lower(y)", "'''\\\\s'''", "y = '\\\\\\\\s'", "y = 's'"]
)
def test_other_code_is_not_reported(source: str) -> None:
    assert not asked_of_python(source)


def test_no_rule_of_the_core_uses_the_running_pythons_tables() -> None:
    modules = [path for path in (SOURCES / "apportion/core").rglob("*.py") if path.name not in OF_BYTES]
    assert len(modules) > 50
    asked = {path.name: asked for path in modules if (asked := asked_of_python(path.read_text("utf-8")))}
    assert {name: len(lines) for name, lines in asked.items()} == {OF_WORDS: 1}
    assert "return len(text.split())" in (SOURCES / "apportion/core/text" / OF_WORDS).read_text("utf-8")


def test_words_are_split_by_our_white_space_not_by_pythons() -> None:
    parting = {chr(n) for n in range(sys.maxunicode + 1) if words(f"a{chr(n)}b") == 2}
    assert parting == set(WHITE_SPACE)
    assert [words(text) for text in ("", " ", "\x1c", " a", "a ", "a\x1d\x1e b\x1f\u3000c")] == [
        0,
        0,
        1,
        1,
        1,
        3,
    ]


def test_white_space_follows_unicode_and_equals_pythons_strip_set() -> None:
    assert len(set(WHITE_SPACE)) == len(WHITE_SPACE) == 25
    assert set(SPACE_OR_SEPARATOR) == {chr(n) for n in range(sys.maxunicode + 1) if chr(n).isspace()}


def test_only_a_to_z_have_small_letters() -> None:
    assert lowered("AZ[ÀÉİΣẞ\u212a\u1c89") == "az[ÀÉİΣẞ\u212a\u1c89"
