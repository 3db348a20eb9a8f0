"""Texts of files: their encodings, HTML and notebooks as text, and files that nobody writes by hand."""

import codecs
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import Any

import msgspec

LONG_LINE_CHARACTERS = 1_000
"""A line of as many characters is minified, except in prose."""
PROSE = frozenset({".adoc", ".md", ".org", ".rst", ".tex", ".txt"})
_HTML = frozenset({".htm", ".html", ".xhtml"})
_NOTEBOOK = ".ipynb"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOCKS = frozenset(
    {"go.sum", "npm-shrinkwrap.json", "package-lock.json", "packages.lock.json", "pnpm-lock.yaml"}
)
_VENDOR_FOLDERS = frozenset(
    {"bower_components", "node_modules", "third-party", "third_party", "thirdparty", "vendor", "vendored"}
)
_GENERATED = re.compile(r"code generated|do not edit|@generated\b", re.IGNORECASE)
_HEAD_CHARACTERS = 1_000
_LONG_LINE = re.compile(rf"[^\n]{{{LONG_LINE_CHARACTERS}}}")
_OUTPUT_MAX_CHARACTERS = 1_000
"""The longest output of a notebook's cell that is part of its text."""
_BLOCKS = frozenset(
    "address article aside blockquote body br dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "head header hr html legend li main nav ol option p pre section summary table tbody td tfoot th thead title tr "
    "ul".split()  # fmt: skip
)
_PARAGRAPHS = frozenset("article dl h1 h2 h3 h4 h5 h6 ol p pre section table ul".split())
_HIDDEN = frozenset({"script", "style"})
_SPACES = re.compile(r"[ \t\r\f\v\n]+")


def decode(raw: bytes, path: str) -> str:
    """Return the text of a file without its byte order mark; raise UnicodeDecodeError for other encodings.

    The mark names the encoding; without it, that is UTF-8. HTML is given as its text, and a notebook as its
    cells. If that gives no text, the file is given as it is.
    """
    encoding, size = next(((name, len(mark)) for mark, name in _BOMS if raw.startswith(mark)), ("utf-8", 0))
    text = raw[size:].decode(encoding)
    ending = PurePosixPath(path).suffix.lower()
    if ending in _HTML:
        return _html_text(text) or text
    return (_notebook_text(text) or text) if ending == _NOTEBOOK else text


def machine_made(path: str, text: str) -> str | None:
    """Return the kind of a file that nobody writes by hand, by its path and its text; None for others."""
    file = PurePosixPath(path)
    name = file.name.lower()
    if name in _LOCKS or name.endswith(".lock"):
        return "lock file"
    if name.endswith(".map"):
        return "source map"
    if not _VENDOR_FOLDERS.isdisjoint(file.parts[:-1]):
        return "vendored"
    if name.endswith((".min.js", ".min.css", ".min.mjs")) or has_long_line(path, text):
        return "minified"
    return "generated" if _GENERATED.search(text, 0, _HEAD_CHARACTERS) else None


def has_long_line(path: str, text: str) -> bool:
    """Return whether a file has a line of a thousand characters or more, and is not prose."""
    ending = PurePosixPath(path).suffix.lower()
    return ending not in PROSE | _HTML | {_NOTEBOOK} and _LONG_LINE.search(text) is not None


def _html_text(source: str) -> str:
    reader = _HtmlText()
    reader.feed(source)
    reader.close()
    return reader.text()


class _HtmlText(HTMLParser):
    """Collects the text of a page. A block begins a line, and a paragraph follows a blank line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._verbatim = 0
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - as the base class
        self._hidden = tag in _HIDDEN
        self._verbatim += tag == "pre"
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False
        self._verbatim -= tag == "pre" and self._verbatim > 0
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data if self._verbatim else _SPACES.sub(" ", data))

    def _break(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._parts.append("\n\n" if tag in _PARAGRAPHS else "\n")

    def text(self) -> str:
        """Return the text without spaces at the ends of lines, and with one blank line at most in a row."""
        lines = "\n".join(line.rstrip() for line in "".join(self._parts).split("\n"))
        text = re.sub(r"\n{3,}", "\n\n", re.sub(r"\n (?=\S)", "\n", lines)).strip()
        return text + "\n" if text else ""


def _notebook_text(source: str) -> str:
    """Return the cells of a notebook with a blank line between; an empty text if it is none."""
    try:
        notebook = msgspec.json.decode(source)
        cells = notebook["cells"]
        parts = [part.strip("\n") for cell in cells for part in _cell_texts(cell)]
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return ""
    text = "\n\n".join([part for part in parts if part.strip()])
    return text + "\n" if text else ""


def _cell_texts(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield the source of a cell, and its short outputs."""
    yield "".join(cell["source"])
    for output in cell.get("outputs", ()):
        text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        if len(text) <= _OUTPUT_MAX_CHARACTERS:
            yield text
