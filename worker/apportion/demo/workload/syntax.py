"""Definitions and imports of a source file, by a real parser for each language.

tree-sitter reads files with errors and of any version of their language, with the same result under every
version of Python.
"""

from collections.abc import Callable
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
from tree_sitter import Language, Node, Parser, Query, QueryCursor


class Definition(NamedTuple):
    """A named function, method, class or type; its lines are `start:end`, from 0, decorators included."""

    name: str
    start: int
    end: int


class SourceOutline(NamedTuple):
    """What a file defines, in order, and the modules that it names in its imports, sorted."""

    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]


class _SourceGrammar(NamedTuple):
    """A language: where its grammar is, and what counts as a definition and an import in it."""

    load: Callable[[], object]
    definitions: str
    imports: str


_JAVASCRIPT_DEFINITIONS = """
    (function_declaration name: (_) @name) @definition
    (generator_function_declaration name: (_) @name) @definition
    (class_declaration name: (_) @name) @definition
    (method_definition name: (_) @name) @definition
    (lexical_declaration (variable_declarator name: (identifier) @name value: (arrow_function))) @definition
"""
_JAVASCRIPT_IMPORTS = """
    (import_statement source: (string (string_fragment) @import))
    (export_statement source: (string (string_fragment) @import))
    (call_expression function: (identifier) @_function (#eq? @_function "require")
        arguments: (arguments (string (string_fragment) @import)))
"""
_TYPESCRIPT_DEFINITIONS = f"""{_JAVASCRIPT_DEFINITIONS}
    (interface_declaration name: (_) @name) @definition
    (type_alias_declaration name: (_) @name) @definition
    (enum_declaration name: (_) @name) @definition
"""

_GRAMMARS = {
    "c": _SourceGrammar(
        tree_sitter_c.language,
        """(function_definition declarator: [
               (function_declarator declarator: (identifier) @name)
               (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
           ]) @definition
           (struct_specifier name: (_) @name body: (_)) @definition
           (enum_specifier name: (_) @name body: (_)) @definition
           (type_definition declarator: (type_identifier) @name) @definition""",
        "(preproc_include path: (_) @import)",
    ),
    "go": _SourceGrammar(
        tree_sitter_go.language,
        """(function_declaration name: (_) @name) @definition
           (method_declaration name: (_) @name) @definition
           (type_declaration (type_spec name: (_) @name)) @definition""",
        "(import_spec path: (_) @import)",
    ),
    "java": _SourceGrammar(
        tree_sitter_java.language,
        """(class_declaration name: (_) @name) @definition
           (interface_declaration name: (_) @name) @definition
           (enum_declaration name: (_) @name) @definition
           (record_declaration name: (_) @name) @definition
           (method_declaration name: (_) @name) @definition""",
        "(import_declaration (scoped_identifier) @import)",
    ),
    "javascript": _SourceGrammar(
        tree_sitter_javascript.language, _JAVASCRIPT_DEFINITIONS, _JAVASCRIPT_IMPORTS
    ),
    "python": _SourceGrammar(
        tree_sitter_python.language,
        """(function_definition name: (_) @name) @definition
           (class_definition name: (_) @name) @definition""",
        """(import_statement name: (dotted_name) @import)
           (import_statement name: (aliased_import name: (dotted_name) @import))
           (import_from_statement module_name: (dotted_name) @import)
           (import_from_statement module_name: (relative_import (dotted_name) @import))
           (import_from_statement module_name: (relative_import . (import_prefix) .)
               name: (dotted_name) @import)""",
    ),
    "rust": _SourceGrammar(
        tree_sitter_rust.language,
        """(function_item name: (_) @name) @definition
           (struct_item name: (_) @name) @definition
           (enum_item name: (_) @name) @definition
           (trait_item name: (_) @name) @definition
           (macro_definition name: (_) @name) @definition""",
        """(use_declaration argument: [(identifier) (scoped_identifier)] @import)
           (use_declaration argument: (scoped_use_list path: (_) @import))
           (mod_item name: (_) @import !body)""",
    ),
    "tsx": _SourceGrammar(tree_sitter_typescript.language_tsx, _TYPESCRIPT_DEFINITIONS, _JAVASCRIPT_IMPORTS),
    "typescript": _SourceGrammar(
        tree_sitter_typescript.language_typescript, _TYPESCRIPT_DEFINITIONS, _JAVASCRIPT_IMPORTS
    ),
}
_LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".go": "go",
    ".java": "java",
    ".cjs": "javascript",
    ".js": "javascript",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".py": "python",
    ".pyi": "python",
    ".rs": "rust",
    ".tsx": "tsx",
    ".cts": "typescript",
    ".mts": "typescript",
    ".ts": "typescript",
}
_WRAPPERS = {"decorated_definition", "export_statement"}
"""Nodes that belong to the definition in them."""
_QUOTES = "\"'<>` "
_NAME_MAX_CHARACTERS = 256


def language(path: str) -> str | None:
    """Return the language that a path's ending names, among those that have a parser here."""
    return _LANGUAGES.get(PurePosixPath(path).suffix)


def outline(path: str, text: str) -> SourceOutline:
    """Return what a file defines and imports; nothing, in a language without a parser here."""
    name = language(path)
    if name is None:
        return SourceOutline((), ())
    parser, query = _parser(name)
    definitions: set[Definition] = set()
    imports: set[str] = set()
    source = text.encode()
    for _, found in QueryCursor(query).matches(parser.parse(source).root_node):
        for node in found.get("import", ()):
            imports.add(_text(source, node).strip(_QUOTES))
        for node in found.get("definition", ()):
            definitions.add(_definition(node, _text(source, found["name"][0])))
    imports.discard("")
    ordered = sorted(definitions, key=lambda definition: (definition.start, -definition.end, definition.name))
    return SourceOutline(tuple(ordered), tuple(sorted(imports)))


@cache
def _parser(name: str) -> tuple[Parser, Query]:
    grammar = _GRAMMARS[name]
    loaded = Language(grammar.load())
    return Parser(loaded), Query(loaded, grammar.definitions + grammar.imports)


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode()


def _definition(node: Node, name: str) -> Definition:
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    return Definition(name[:_NAME_MAX_CHARACTERS], node.start_point.row, node.end_point.row + 1)
