"""Splitters of other libraries, where they are installed."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import PurePosixPath

from benchmarks.retrieval.cases import Source
from benchmarks.retrieval.functions import CHUNK_LINES, by_lines, has_parser, parser_for

_CHARACTERS = 1_500
"""The default of LlamaIndex's splitter of code; about 40 lines."""
_LANGUAGES = {
    ".c": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".go": "go",
    ".h": "c",
    ".hpp": "cpp",
    ".java": "java",
    ".js": "js",
    ".jsx": "js",
    ".mjs": "js",
    ".php": "php",
    ".py": "python",
    ".rb": "ruby",
    ".rs": "rust",
    ".ts": "ts",
    ".tsx": "ts",
}
"""LangChain's names of languages."""


def by_langchain(source: Source) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `RecursiveCharacterTextSplitter` for the file's language."""
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter  # noqa: PLC0415

    language = Language(_LANGUAGES[PurePosixPath(source.name).suffix])
    splitter = RecursiveCharacterTextSplitter.from_language(language, chunk_size=_CHARACTERS, chunk_overlap=0)
    return ranges(source, splitter.split_text(source.text))


def by_llama_index(source: Source) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `CodeSplitter`, which cuts along a parser's tree; without one, 40 lines each."""
    if not has_parser(source.name):
        return by_lines(source)
    from llama_index.core.node_parser import CodeSplitter  # noqa: PLC0415

    ending = PurePosixPath(source.name).suffix
    splitter = CodeSplitter(
        language=_LANGUAGES[ending],
        chunk_lines=CHUNK_LINES,
        chunk_lines_overlap=1,  # the least; the splitter reads it nowhere
        max_chars=_CHARACTERS,
        parser=parser_for(ending),
    )
    return ranges(source, splitter.split_text(source.text))


def ranges(source: Source, chunks: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the lines of chunks, which follow each other in the text; a part of a line counts as the line."""
    text, behind = source.text, 0
    starts = [0, *accumulate(len(line) + 1 for line in source.parts)]
    for chunk in chunks:
        offset = text.find(chunk, behind)
        if not chunk.strip() or offset < 0:
            continue
        behind = offset + len(chunk)
        yield bisect_right(starts, offset) - 1, bisect_right(starts, behind - 1)
