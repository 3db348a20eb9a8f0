"""Functions of source files, found by a parser."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

import tree_sitter_c
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from benchmarks.retrieval.cases import Source

CHUNK_LINES = 40


class _Grammar(NamedTuple):
    load: Callable[[], object]
    functions: frozenset[str]


_C = _Grammar(tree_sitter_c.language, frozenset({"function_definition"}))
_JAVASCRIPT_FUNCTIONS = frozenset(
    {"function_declaration", "generator_function_declaration", "method_definition"}
)
_JAVASCRIPT = _Grammar(tree_sitter_javascript.language, _JAVASCRIPT_FUNCTIONS)
_GRAMMARS: Mapping[str, _Grammar] = {
    ".c": _C,
    ".go": _Grammar(tree_sitter_go.language, frozenset({"function_declaration", "method_declaration"})),
    ".h": _C,
    ".java": _Grammar(
        tree_sitter_java.language, frozenset({"constructor_declaration", "method_declaration"})
    ),
    ".js": _JAVASCRIPT,
    ".jsx": _JAVASCRIPT,
    ".py": _Grammar(tree_sitter_python.language, frozenset({"function_definition"})),
    ".rs": _Grammar(tree_sitter_rust.language, frozenset({"function_item"})),
    ".ts": _Grammar(tree_sitter_typescript.language_typescript, _JAVASCRIPT_FUNCTIONS),
    ".tsx": _Grammar(tree_sitter_typescript.language_tsx, _JAVASCRIPT_FUNCTIONS),
}


_NOT_PARSED = frozenset({".cc", ".cpp", ".hpp", ".mjs", ".php", ".rb"})
"""Endings of languages without a parser here. In these files, no function is known."""


def is_source(path: str) -> bool:
    """Return whether a path names a file in a known programming language."""
    return has_parser(path) or PurePosixPath(path).suffix in _NOT_PARSED


def has_parser(path: str) -> bool:
    """Return whether a path names a file in a language that has a parser here."""
    return PurePosixPath(path).suffix in _GRAMMARS


@cache
def parser_for(ending: str) -> Parser:
    """Return the parser of files with an ending."""
    return Parser(Language(_GRAMMARS[ending].load()))


@cache
def functions_of(source: Source) -> list[tuple[int, int]]:
    """Return the lines of each function outside of other functions, with its decorators.

    The list is empty if the language has no parser here.
    """
    if not has_parser(source.name):
        return []
    ending = PurePosixPath(source.name).suffix
    root = parser_for(ending).parse(source.text.encode()).root_node
    return sorted(set(_functions(root, _GRAMMARS[ending].functions)))


def _functions(root: Node, types: frozenset[str]) -> Iterator[tuple[int, int]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type not in types:
            waiting += node.children
            continue
        around = node.parent
        if around is not None and around.type == "decorated_definition":
            node = around
        yield node.start_point.row, node.end_point.row + 1


def by_lines(source: Source) -> Iterator[tuple[int, int]]:
    """Yield ranges of 40 lines."""
    yield from _chunks(0, len(source.parts))


def by_functions(source: Source) -> Iterator[tuple[int, int]]:
    """Yield each function, and the lines between functions in ranges of at most 40 lines."""
    end_before = 0
    for first, end in functions_of(source):
        if first >= end_before:  # a line may hold two functions
            yield from _chunks(end_before, first)
            yield first, end
            end_before = end
    yield from _chunks(end_before, len(source.parts))


def _chunks(first: int, end: int) -> Iterator[tuple[int, int]]:
    for start in range(first, end, CHUNK_LINES):
        yield start, min(start + CHUNK_LINES, end)
