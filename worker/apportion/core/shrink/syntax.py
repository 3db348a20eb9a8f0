"""Syntax of code: the places of functions, docstrings and comments, by tree-sitter's grammars.

The versions of the parser and the grammars are pinned. Another version could give other forms, so they are
part of the engine's version.

Parsing is bounded by its work, not by time: a single parse in `metered`, all parses of a request in
`parsing`. A text with more functions, types, docs and comments than code has does not count as code.

A method without its class is not valid JavaScript or TypeScript. So a text in these languages that has
errors is parsed again inside a class. The second parse is used if it has no errors.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import NamedTuple

from tree_sitter import Language, Node, Query, QueryCursor

from apportion.core.lru import process_wide
from apportion.core.shrink import metered
from apportion.core.shrink.cuts import BLANK
from apportion.core.shrink.parsing import Parsing

MATCHES_MAX = 800
"""The largest number of functions, types, docs and comments in code; files have at most 260."""

_ERRORS = "[(ERROR) (MISSING)] @error"
"""Skipped or inserted tokens. Each child of an error is a token or an unfinished node."""

_INSIDE_CHARACTER = re.compile(rb"[\x80-\xbf]")


class SyntaxSpan(NamedTuple):
    """A part of a text, from `start` to before `end`, in code points."""

    start: int
    end: int


class Body(NamedTuple):
    """The body of a function: the text between its braces, or the block under its head and docstring.

    `depth` is the number of functions and types around it.
    """

    span: SyntaxSpan
    depth: int


class Outline(NamedTuple):
    """The bodies of functions without errors, and all docs, both in the order of the text."""

    bodies: tuple[Body, ...]
    docs: tuple[SyntaxSpan, ...]


class _Grammar(NamedTuple):
    """A grammar: its module, its query, and the frame in which a text with errors is parsed again."""

    module: str
    query: str
    function: str = "language"
    around: tuple[str, str] | None = None


_JAVASCRIPT = """
    [(function_declaration body: (statement_block) @body)
     (generator_function_declaration body: (statement_block) @body)
     (function_expression body: (statement_block) @body)
     (generator_function body: (statement_block) @body)
     (arrow_function body: (statement_block) @body)
     (method_definition body: (statement_block) @body)] @function
    (class_body) @type
    (comment) @comment
"""
_TYPESCRIPT = f"{_JAVASCRIPT} [(interface_body) (enum_body) (internal_module body: (statement_block))] @type"
_CLASS = ("class _ {", "\n}")

_GRAMMARS = {
    "c": _Grammar(
        "tree_sitter_c",
        """(function_definition body: (compound_statement) @body) @function
           [(field_declaration_list) (enumerator_list)] @type
           (comment) @comment""",
    ),
    "go": _Grammar(
        "tree_sitter_go",
        """[(function_declaration body: (block) @body)
            (method_declaration body: (block) @body)
            (func_literal body: (block) @body)] @function
           [(struct_type) (interface_type)] @type
           (comment) @comment""",
    ),
    "java": _Grammar(
        "tree_sitter_java",
        """[(method_declaration body: (block) @body)
            (constructor_declaration body: (constructor_body) @body)
            (compact_constructor_declaration body: (block) @body)
            (lambda_expression body: (block) @body)] @function
           [(class_body) (interface_body) (enum_body) (annotation_type_body)] @type
           [(line_comment) (block_comment)] @comment""",
    ),
    "javascript": _Grammar("tree_sitter_javascript", _JAVASCRIPT, around=_CLASS),
    "python": _Grammar(
        "tree_sitter_python",
        """(function_definition body: (block) @block) @function
           (class_definition) @type
           [(function_definition body: (block . (expression_statement . (string) @doc .)))
            (class_definition body: (block (expression_statement . (string) @doc .)))
            (module (expression_statement . (string) @doc .))]
           (comment) @comment""",
    ),
    "rust": _Grammar(
        "tree_sitter_rust",
        """[(function_item body: (block) @body) (closure_expression body: (block) @body)] @function
           [(declaration_list) (field_declaration_list) (enum_variant_list)] @type
           [(line_comment) (block_comment)] @comment""",
    ),
    "tsx": _Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_tsx", _CLASS),
    "typescript": _Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_typescript", _CLASS),
}


class _Read(NamedTuple):
    """A parsed source: the bytes before its text, its tree, and the matches of the query.

    `repairs` is the number of tokens that were skipped or inserted, and of ways out of errors that were given
    up. `ambiguity` measures the text that was read in more than one way.
    """

    source: bytes
    before: int
    root: Node
    matches: tuple[dict[str, Node], ...]
    repairs: int
    ambiguity: int


def outline(language: str, text: str, parsing: Parsing) -> Outline | None:
    """Return the outline of a text, and add the work to `parsing`.

    The result is None if no function and no type is without errors, if parsing costs too much, or if the text
    has more than `MATCHES_MAX` functions, types, docs and comments. Raises KeyError for an unknown language.
    """
    read = _read(language, text, parsing)
    if read is None or len(read.matches) > MATCHES_MAX:
        return None
    matches = read.matches
    nodes = [match.get("function") or match.get("type") for match in matches]
    around = [node for node in nodes if node is not None and node.start_byte >= read.before]
    if all(node.has_error for node in around):
        return None
    positions = _Places(read.source, read.before)
    docs = sorted(positions.span(match["doc"]) for match in matches if "doc" in match)
    comments = sorted(positions.span(match["comment"]) for match in matches if "comment" in match)
    behind = {doc.start: doc.end for doc in docs}
    depths = _depths(map(positions.span, around))
    bodies = (
        Body(_body(match, positions, behind, text), depths[positions.span(match["function"])])
        for match in matches
        if "function" in match and not match["function"].has_error
    )
    return Outline(tuple(sorted(bodies)), tuple(sorted((*docs, *_paragraphs(comments, text)))))


@process_wide(len(_GRAMMARS))
def _loaded(language: str) -> tuple[Language, Query]:
    grammar = _GRAMMARS[language]
    loaded = Language(getattr(import_module(grammar.module), grammar.function)())
    return loaded, Query(loaded, f"{grammar.query} {_ERRORS}")


def _read(language: str, text: str, parsing: Parsing) -> _Read | None:
    """Return the parse of a text, or None if it costs too much.

    A text with errors is parsed again within the frame of its grammar; that parse is returned if it has no
    errors. The work of both counts.
    """
    around = _GRAMMARS[language].around
    read = _parsed(language, text.encode(), 0, parsing)
    if read is None:
        parsing.stopped()
        return None
    reads = [read]
    if around is not None and read.root.has_error:
        before, behind = around
        retried = _parsed(language, (before + text + behind).encode(), len(before), parsing)
        if retried is None:
            parsing.stopped()
        else:
            reads.append(retried)
    if read.root.has_error:
        for attempt in reads:
            parsing.repaired(len(attempt.source), attempt.repairs, attempt.ambiguity)
    return read if reads[-1].root.has_error else reads[-1]


def _parsed(language: str, source: bytes, before: int, parsing: Parsing) -> _Read | None:
    grammar, query = _loaded(language)
    parse = metered.parse(grammar, source)
    parsing.parsed(parse.reports)
    if parse.root is None:
        return None
    captures = [captured for _, captured in QueryCursor(query).matches(parse.root)]
    first_nodes = [{name: node for name, (node, *_) in captured.items()} for captured in captures]
    errors = sum(match["error"].child_count or 1 for match in first_nodes if "error" in match)
    matches = tuple(match for match in first_nodes if "error" not in match)
    return _Read(source, before, parse.root, matches, parse.ways_given_up + errors, parse.ambiguity)


class _Places:
    """Spans of nodes, in code points of a text that starts after the first `before` bytes of its source."""

    def __init__(self, source: bytes, before: int) -> None:
        self._before = before
        self._inside = [byte.start() for byte in _INSIDE_CHARACTER.finditer(source)]

    def span(self, node: Node) -> SyntaxSpan:
        """Return the span of a node."""
        return SyntaxSpan(self._place(node.start_byte), self._place(node.end_byte))

    def _place(self, offset: int) -> int:
        return offset - self._before - bisect_left(self._inside, offset)


def _body(match: dict[str, Node], positions: _Places, behind: dict[int, int], text: str) -> SyntaxSpan:
    """Return the span between the braces of a body, or of a block after its docstring."""
    if "block" in match:
        block = positions.span(match["block"])
        return SyntaxSpan(behind.get(block.start, block.start), block.end)
    braces = positions.span(match["body"])
    return SyntaxSpan(text.index("{", braces.start) + 1, braces.end - 1)


def _depths(spans: Iterable[SyntaxSpan]) -> dict[SyntaxSpan, int]:
    """Return, for each span, the number of other spans that contain it."""
    depths: dict[SyntaxSpan, int] = {}
    around: list[SyntaxSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        while around and around[-1].end <= span.start:
            around.pop()
        depths[span] = len(around)
        around.append(span)
    return depths


def _paragraphs(comments: Iterable[SyntaxSpan], text: str) -> Iterator[SyntaxSpan]:
    """Yield comments; comments with only blanks and at most one line end between them count as one."""
    paragraph: list[SyntaxSpan] = []
    for start, end in comments:
        comment = SyntaxSpan(start, start + len(text[start:end].rstrip(BLANK)))
        between = text[paragraph[-1].end : start] if paragraph else ""
        if paragraph and not between.strip(BLANK) and between.count("\n") <= 1:
            paragraph.append(comment)
        else:
            if paragraph:
                yield SyntaxSpan(paragraph[0].start, paragraph[-1].end)
            paragraph = [comment]
    if paragraph:
        yield SyntaxSpan(paragraph[0].start, paragraph[-1].end)
