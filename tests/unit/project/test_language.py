"""The words of docstrings, comments and tests' names: plain English, and pointers that lead somewhere."""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.packages import PAGE, with_table

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path for name in ("worker", "tests", "benchmarks", "tools") for path in (ROOT / name).rglob("*.py")
)
IDIOM = re.compile(
    r"\b(stands?|stood|standing|beside|tells?|told|who|whom|whose|aside|afresh|anew|dear|lacks?|lacking|"
    r"at hand|by itself|for itself|goes by|go by|of which|of whom|of what|what of|what is|what was|what it|"
    r"what they|what a|what the|whatever|one that|those that|those of|that of|as far as|all the same|"
    r"nothing (?:is|was|more)|nobody|let go|take back|taken back|what (?:has|had|fits|fit|came|comes|stands|"
    r"stood|others|we|this|would|will|may|must|can|could|no|an|makes|moves|gives|gave)|wherever)\b",
    re.IGNORECASE,
)
PER_THOUSAND_MAX = 5
PER_THOUSAND_OVER_ALL_MAX = 2
WORDS_MIN = 100
POINTER = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
EXAMPLES = {"a.py", "test_foo.py"}
"""Names of files that are no modules of ours."""


def prose(path: Path) -> Iterator[str]:
    """Yield each string statement, comment and test's name of a module."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " ")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa"):
            yield token.string


def idioms() -> tuple[Counter[str], Counter[str]]:
    """Return the words and the house idioms of each folder."""
    words, found = Counter[str](), Counter[str]()
    for path in FILES:
        folder = path.parent.relative_to(ROOT).as_posix()
        for text in prose(path):
            words[folder] += len(text.split())
            found[folder] += len(IDIOM.findall(text))
    return words, found


def test_each_package_uses_few_house_idioms() -> None:
    words, found = idioms()
    over = {
        folder: round(1000 * found[folder] / count, 1)
        for folder, count in words.items()
        if count >= WORDS_MIN and 1000 * found[folder] > PER_THOUSAND_MAX * count
    }
    assert over == {}
    assert 1000 * found.total() <= PER_THOUSAND_OVER_ALL_MAX * words.total()


def test_the_idioms_are_found() -> None:
    assert IDIOM.findall("What is told of those that stand") == ["What is", "told", "those that", "stand"]
    assert IDIOM.findall("Session rows of one partition") == []


def test_each_module_that_is_named_exists() -> None:
    files = [
        f"/{path.as_posix()}"
        for name in ("worker", "tests", "tools", "deploy", "benchmarks")
        for path in (ROOT / name).rglob("*.py")
    ]
    pages = [*(ROOT / "worker").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), PAGE]
    named = {(page.name, name) for page in pages for name in POINTER.findall(page.read_text("utf-8"))}
    missing = [(page, name) for page, name in named if not any(file.endswith(f"/{name}") for file in files)]
    assert [pointer for pointer in missing if pointer[1] not in EXAMPLES] == []


def test_the_table_of_packages_is_made_from_the_docstrings() -> None:
    assert PAGE.read_text("utf-8") == with_table(PAGE.read_text("utf-8"))


def test_the_modules_of_the_core_are_listed_in_the_order_of_their_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [layers] = [
        contract["layers"] for contract in contracts if contract.get("containers") == ["apportion.core"]
    ]
    listed = PAGE.read_text("utf-8").partition("Modules of `core`")[2].split("```")[1].splitlines()[1:]
    assert [line.partition("  ")[0].replace(", ", " | ") for line in listed] == layers
