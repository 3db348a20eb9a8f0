"""Texts of files: encodings, pages and notebooks as text, and files that are not written by hand."""

import codecs
import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import PurePosixPath
from typing import Any

import msgspec

PROSE = frozenset({".adoc", ".md", ".org", ".rst", ".tex", ".txt"})
_HTML = frozenset({".htm", ".html", ".xhtml"})
_NOTEBOOK = ".ipynb"
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_LOCKS = frozenset({"go.sum", "npm-shrinkwrap.json", "package-lock.json", "pnpm-lock.yaml"})
_VENDORED = frozenset(
    {"bower_components", "node_modules", "third-party", "third_party", "vendor", "vendored"}
)
_GENERATED = re.compile(r"code generated|do not edit|@generated\b", re.IGNORECASE)
_HEAD_CHARACTERS = 1_000
_LONG_LINE_CHARACTERS = 1_000
_OUTPUT_MAX_CHARACTERS = 1_000
"""The longest output of a notebook's cell that is part of its text."""
_TAG = re.compile(
    r"""<!--.*?(?:-->|\Z)|<[!?][^>]*>?
    |<(?P<hidden>script|style)\b(?![^<>]*/>).*?(?:</(?P=hidden)[^>]*>?|\Z)
    |</?(?P<tag>[a-z][^\s/<>]*)(?:=\s*"[^"]*"|=\s*'[^']*'|=|[^<>=]+)*>?""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
"""Comments, declarations, scripts, styles and tags. Their ends are optional, so that the time is linear."""
_INLINE = re.compile("a|abbr|b|cite|code|em|font|i|img|kbd|mark|small|span|strong|sub|sup|tt|u|var")
_PARAGRAPH = re.compile("h[1-6]|ol|p|pre|section|table|ul")


def decode(raw: bytes, path: str) -> str:
    """Return the text of a file without its byte order mark; raise UnicodeDecodeError for other encodings.

    The mark names the encoding; without it, that is UTF-8. A page gives its text, and a notebook its cells.
    If there are none, the file is its own text.
    """
    mark = next(filter(raw.startswith, _BOMS), b"")
    text = raw.removeprefix(mark).decode(_BOMS.get(mark, "utf-8"))
    ending = PurePosixPath(path).suffix.lower()
    if ending in _HTML:
        return _html_text(text) or text
    return (_notebook_text(text) or text) if ending == _NOTEBOOK else text


def machine_made(path: str, text: str) -> str | None:
    """Return the kind of a file that is not written by hand, by its path and its text; None for others."""
    file = PurePosixPath(path)
    name = file.name.lower()
    if name in _LOCKS or name.endswith(".lock"):
        return "lock file"
    if name.endswith(".map"):
        return "source map"
    if not _VENDORED.isdisjoint(file.parts[:-1]):
        return "vendored"
    if name.endswith((".min.js", ".min.mjs", ".min.css")) or has_long_line(path, text):
        return "minified"
    return "generated" if _GENERATED.search(text, 0, _HEAD_CHARACTERS) else None


def has_long_line(path: str, text: str) -> bool:
    """Return whether a file has a line of 1,000 characters or more, and is no prose, page or notebook."""
    written = PROSE | _HTML | {_NOTEBOOK}
    longest = max(map(len, text.split("\n")))
    return longest >= _LONG_LINE_CHARACTERS and PurePosixPath(path).suffix.lower() not in written


def _html_text(source: str) -> str:
    try:
        return _tidy(unescape(_TAG.sub(_break, source)))
    except ValueError:  # a reference to a character by a number of thousands of digits
        return ""


def _break(found: re.Match[str]) -> str:
    """Return the text in place of a tag: tags that are not inline break the line, and paragraphs twice."""
    if found["hidden"]:
        return "\n"
    tag = (found["tag"] or "a").lower()
    return "" if _INLINE.fullmatch(tag) else "\n\n" if _PARAGRAPH.fullmatch(tag) else "\n"


def _notebook_text(source: str) -> str:
    try:
        cells = msgspec.json.decode(source)["cells"]
        return _tidy("\n\n".join([part for cell in cells for part in _cell_texts(cell)]))
    except (msgspec.DecodeError, AttributeError, KeyError, RecursionError, TypeError):
        return ""


def _cell_texts(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield the source of a cell, and its short outputs."""
    yield "".join(cell["source"])
    for output in cell.get("outputs", ()):
        text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        if len(text) <= _OUTPUT_MAX_CHARACTERS:
            yield text


def _tidy(text: str) -> str:
    """Return a text with at most two blank lines in a row, and no spaces at the ends of lines."""
    text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(map(str.rstrip, text.split("\n")))).strip("\n")
    return text and text + "\n"
