"""Files of a folder, without the ignored ones, and with the mark of generated files in `.gitattributes`."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pathspec import GitIgnoreSpec

_Rules: TypeAlias = Sequence[tuple[Path, GitIgnoreSpec]]
"""Folders with their rules, from the top down."""
_WILDCARD = re.compile(r"(?<![^/])\*\*(?![^/])|\*")
_WILDCARDS_MAX = 4
"""A pattern with more is not used: with eight, one name of 100 characters can take minutes."""
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
"""A word of `.gitattributes`, or a pattern in quotes."""


class LeftOut(StrEnum):
    """The reason why a file is not in the request."""

    IGNORED = "ignored by .gitignore"
    LINK = "symbolic links"
    BINARY = "not text in UTF-8 or UTF-16"
    EMPTY = "empty"
    PATH = "with paths that an event cannot have"
    UNREADABLE = "unreadable"
    TOO_LARGE = "above 8 MiB"
    NO_WORDS = "large or minified, without words of the query"
    NO_ROOM = "beyond --max-bytes"


def files_of(folder: Path, left_out: Counter[LeftOut]) -> Iterator[tuple[Path, bool]]:
    """Yield the files below a folder, each with whether an attribute calls it generated.

    The nearest `.gitignore` and `.gitattributes` with a rule for a file decide.
    """
    tops = [parent for parent in (folder, *folder.parents) if (parent / ".git").exists()]
    between = [parent for parent in folder.parents if tops and parent.is_relative_to(tops[0])]
    above = [[found for parent in reversed(between) for found in _rules(parent, name)] for name in _READERS]
    waiting = [(folder, above)]
    while waiting:
        parent, inherited = waiting.pop()
        rules = [[*found, *_rules(parent, name)] for found, name in zip(inherited, _READERS, strict=True)]
        ignores, attributes = rules
        try:
            entries = sorted(os.scandir(parent), key=lambda entry: entry.name)
        except OSError:
            left_out[LeftOut.UNREADABLE] += 1
            continue
        for entry in entries:
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git":
                continue
            if entry.is_symlink():
                left_out[LeftOut.LINK] += 1
            elif _is_named(path, ignores, is_folder=is_folder):
                left_out[LeftOut.IGNORED] += 1
            elif is_folder:
                waiting.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield path, _is_named(path, attributes, is_folder=False)


def _rules(folder: Path, name: str) -> list[tuple[Path, GitIgnoreSpec]]:
    file = folder / name
    try:
        lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    except OSError:
        return []
    patterns = list(filter(_is_valid, _READERS[name](lines)))
    return [(folder, GitIgnoreSpec.from_lines(patterns))] if patterns else []


def _is_valid(pattern: str) -> bool:
    """Return whether a pattern can be used; git, too, ignores invalid patterns."""
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error):
        return False
    return len(_WILDCARD.findall(pattern)) <= _WILDCARDS_MAX


def _generated(lines: Sequence[str]) -> list[str]:
    """Return the patterns of generated files; `!` begins a pattern of other files."""
    patterns = []
    for pattern, *signs in filter(None, map(_WORD.findall, lines)):
        values = [sign for sign in signs if re.fullmatch("[!-]?linguist-generated(=.*)?", sign)]
        if values and not pattern.startswith(("!", "#")):
            is_set = values[-1][0] == "l" and not values[-1].endswith("=false")
            name = pattern[1:-1] if pattern.startswith('"') else pattern
            patterns.append(name if is_set else f"!{name}")
    return patterns


_READERS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    ".gitignore": lambda lines: lines,
    ".gitattributes": _generated,
}


def _is_named(path: Path, rules: _Rules, *, is_folder: bool) -> bool:
    for folder, spec in reversed(rules):
        name = path.relative_to(folder).as_posix()
        include = spec.check_file(f"{name}/" if is_folder else name).include
        if include is not None:
            return include
    return False
