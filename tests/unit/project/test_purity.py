"""Purity of the core: it imports only libraries that do no I/O, know no clock and write no log."""

import ast
import sys
from pathlib import Path

CORE = Path(__file__).parents[3] / "worker" / "apportion" / "core"
LIBRARIES = {"imagesize", "msgspec", "numpy", "pydantic", "rfc8785", "tree_sitter"}
STANDARD = {
    "base64",
    "bisect",
    "collections",
    "copy",
    "datetime",
    "difflib",
    "decimal",
    "enum",
    "fnmatch",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "importlib",  # a parser of a language is imported when it is first used
    "io",  # bytes in memory, which a library reads like a file
    "itertools",
    "json",
    "math",
    "operator",
    "posixpath",
    "re",
    "string",
    "sys",  # for the interning of strings
    "typing",
}
CLOCKS = {"now", "today", "utcnow"}


def test_the_core_imports_only_pure_libraries() -> None:
    imported: set[str] = set()
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert imported == {"apportion"} | LIBRARIES | STANDARD
    assert sys.stdlib_module_names >= STANDARD


def test_the_core_reads_no_clock() -> None:
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            assert not (isinstance(node, ast.Attribute) and node.attr in CLOCKS), f"{path}:{node.lineno}"
