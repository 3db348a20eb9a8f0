"""Definitions and imports of a source file, by a tree-sitter parser for each language."""

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
    """A named function, method, class or type; its lines are `start:end`, from 0, including decorators."""

    name: str
    start: int
    end: int


class SourceOutline(NamedTuple):
    """The definitions of a file, in order, and the modules that its imports name, sorted."""

    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]


_JAVASCRIPT = """
    (function_declaration name: (_) @name) @definition
    (generator_function_declaration name: (_) @name) @definition
    (class_declaration name: (_) @name) @definition
    (method_definition name: (_) @name) @definition
    (lexical_declaration (variable_declarator name: (identifier) @name value: (arrow_function))) @definition
    (import_statement source: (string (string_fragment) @import))
    (export_statement source: (string (string_fragment) @import))
    (call_expression function: (identifier) @_function (#eq? @_function "require")
        arguments: (arguments (string (string_fragment) @import)))
"""
_TYPESCRIPT = f"""{_JAVASCRIPT}
    (interface_declaration name: (_) @name) @definition
    (type_alias_declaration name: (_) @name) @definition
    (enum_declaration name: (_) @name) @definition
"""

_GRAMMARS = {
    "c": (
        tree_sitter_c.language,
        """(function_definition declarator: [
               (function_declarator declarator: (identifier) @name)
               (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
           ]) @definition
           (struct_specifier name: (_) @name body: (_)) @definition
           (enum_specifier name: (_) @name body: (_)) @definition
           (type_definition declarator: (type_identifier) @name) @definition
           (preproc_include path: (_) @import)""",
    ),
    "go": (
        tree_sitter_go.language,
        """(function_declaration name: (_) @name) @definition
           (method_declaration name: (_) @name) @definition
           (type_declaration (type_spec name: (_) @name)) @definition
           (import_spec path: (_) @import)""",
    ),
    "java": (
        tree_sitter_java.language,
        """(class_declaration name: (_) @name) @definition
           (interface_declaration name: (_) @name) @definition
           (enum_declaration name: (_) @name) @definition
           (record_declaration name: (_) @name) @definition
           (method_declaration name: (_) @name) @definition
           (import_declaration (scoped_identifier) @import)""",
    ),
    "javascript": (tree_sitter_javascript.language, _JAVASCRIPT),
    "python": (
        tree_sitter_python.language,
        """(function_definition name: (_) @name) @definition
           (class_definition name: (_) @name) @definition
           (import_statement name: (dotted_name) @import)
           (import_statement name: (aliased_import name: (dotted_name) @import))
           (import_from_statement module_name: (dotted_name) @import)
           (import_from_statement module_name: (relative_import (dotted_name) @import))
           (import_from_statement module_name: (relative_import . (import_prefix) .)
               name: (dotted_name) @import)""",
    ),
    "rust": (
        tree_sitter_rust.language,
        """(function_item name: (_) @name) @definition
           (struct_item name: (_) @name) @definition
           (enum_item name: (_) @name) @definition
           (trait_item name: (_) @name) @definition
           (macro_definition name: (_) @name) @definition
           (use_declaration argument: [(identifier) (scoped_identifier)] @import)
           (use_declaration argument: (scoped_use_list path: (_) @import))
           (mod_item name: (_) @import !body)""",
    ),
    "tsx": (tree_sitter_typescript.language_tsx, _TYPESCRIPT),
    "typescript": (tree_sitter_typescript.language_typescript, _TYPESCRIPT),
}
"""The function that loads each language's grammar, and a query for definitions and imports."""
_ENDINGS = {
    "c": (".c", ".h"),
    "go": (".go",),
    "java": (".java",),
    "javascript": (".cjs", ".js", ".jsx", ".mjs"),
    "python": (".py", ".pyi"),
    "rust": (".rs",),
    "tsx": (".tsx",),
    "typescript": (".cts", ".mts", ".ts"),
}
_LANGUAGES = {ending: name for name, endings in _ENDINGS.items() for ending in endings}
_WRAPPERS = {"decorated_definition", "export_statement"}
"""Types of nodes that belong to the definition in them."""
_QUOTES = "\"'<>` "
_NAME_MAX_CHARACTERS = 256


def language(path: str) -> str | None:
    """Return the language of a path by its ending; None for a language without a parser here."""
    return _LANGUAGES.get(PurePosixPath(path).suffix)


def outline(path: str, text: str) -> SourceOutline:
    """Return the outline of a file; it is empty for a language without a parser here."""
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
    load, query = _GRAMMARS[name]
    grammar = Language(load())
    return Parser(grammar), Query(grammar, query)


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode()


def _definition(node: Node, name: str) -> Definition:
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    return Definition(name[:_NAME_MAX_CHARACTERS], node.start_point.row, node.end_point.row + 1)
