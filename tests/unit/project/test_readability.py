"""Rules of readability that hold for the whole package."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "worker" / "apportion"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_bytes()) for path in FILES}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_NOUN = re.compile(r"(What|Where|Which|Whether|Whose|Who|Whom|How|When|Why|From|With|To|Each)\b")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"])|\n\s*\n|\n\s*(?=[-*] |\w+: )")
WORDS_MAX = 40
LINES_MAX = 40


def class_names() -> Iterator[str]:
    """Yield each class name that is defined more than once."""
    counts = Counter(
        node.name for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    for name, count in sorted(counts.items()):
        if count > 1:
            yield name


def openings() -> Iterator[str]:
    """Yield each module without a docstring, or with a docstring that does not begin with a noun phrase."""
    for name, tree in MODULES.items():
        docstring = ast.get_docstring(tree) or ""
        if not docstring or NO_NOUN.match(docstring):
            yield name


def long_sentences() -> Iterator[str]:
    """Yield each sentence of a docstring that has too many words."""
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            docstring = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            for sentence in SENTENCE_END.split(docstring or ""):
                if len(sentence.split()) > WORDS_MAX:
                    yield f"{name}:{getattr(node, 'lineno', 1)}: {sentence[:60]}"


def vague_variables() -> Iterator[str]:
    """Yield each loop variable `one` or `those`."""
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                for variable in ast.walk(node.target):
                    if isinstance(variable, ast.Name) and variable.id in {"one", "those"}:
                        yield f"{name}:{variable.lineno}"


def long_functions() -> Iterator[str]:
    """Yield each function of too many lines; the signatures of commands are not counted."""
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_command = name.startswith("cli/") and not node.name.startswith("_")
                start = node.body[0].lineno if is_command else node.lineno
                if (node.end_lineno or start) - start + 1 > LINES_MAX:
                    yield f"{name}:{node.lineno} {node.name}"


def module_name(path: str) -> str:
    return ".".join(["apportion", *Path(path).with_suffix("").parts]).removesuffix(".__init__")


def import_cycles() -> Iterator[str]:
    """Yield each module that imports itself by way of others, imports for types included."""
    names = {module_name(path): tree for path, tree in MODULES.items()}
    imports = {name: imported(tree, names.keys()) - {name} for name, tree in names.items()}
    for name in sorted(imports):
        reached, waiting = set[str](), [name]
        while waiting:
            new = imports[waiting.pop()] - reached
            reached |= new
            waiting += new
        if name in reached:
            yield name


def imported(tree: ast.Module, names: Collection[str]) -> set[str]:
    """Return the modules of the package that a module imports by name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {path if path in names else node.module for path in full}
    return found & set(names)


@pytest.mark.parametrize(
    "broken", [class_names, openings, long_sentences, vague_variables, long_functions, import_cycles]
)
def test_no_module_breaks_a_rule_of_readability(broken: Callable[[], Iterator[str]]) -> None:
    assert list(broken()) == []


def test_every_rule_is_looked_at() -> None:
    assert len(MODULES) > 200
    assert NO_NOUN.match("What is told") and not NO_NOUN.match("Whatever") and not NO_NOUN.match("Rows")  # noqa: PT018
    assert SENTENCE_END.split("One. Two") == ["One.", "Two"]
