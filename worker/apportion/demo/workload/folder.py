"""Files of a folder, without the ignored ones, and with the mark of generated files in `.gitattributes`."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pathspec import GitIgnoreSpec

_Rules: TypeAlias = Sequence[tuple[Path, GitIgnoreSpec]]
"""Folders with their rules, from the top down."""


class LeftOut(StrEnum):
    """The reason why a file is not in the request."""

    IGNORED = "ignored by .gitignore"
    LINK = "symbolic links"
    BINARY = "not text in UTF-8 or UTF-16"
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    TOO_LARGE = "above 8 MiB"
    NO_WORDS = "large or minified, without words of the query"
    NO_ROOM = "beyond --max-bytes"


def files_of(folder: Path, left_out: Counter[LeftOut]) -> Iterator[tuple[Path, bool]]:
    """Yield the files below a folder by name, each with whether an attribute calls it generated.

    The nearest `.gitignore` and `.gitattributes` with a rule for a file decide.
    """
    tops = [parent for parent in (folder, *folder.parents) if (parent / ".git").exists()]
    between = [parent for parent in folder.parents if tops and parent.is_relative_to(tops[0])]
    above = [[found for parent in reversed(between) for found in _rules(parent, name)] for name in _READERS]
    yield from _below(folder, above, left_out)


def _below(folder: Path, above: Sequence[_Rules], left_out: Counter[LeftOut]) -> Iterator[tuple[Path, bool]]:
    rules = [[*found, *_rules(folder, name)] for found, name in zip(above, _READERS, strict=True)]
    ignores, attributes = rules
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        left_out[LeftOut.UNREADABLE] += 1
        return
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
            yield from _below(path, rules, left_out)
        elif entry.is_file(follow_symlinks=False):
            yield path, _is_named(path, attributes, is_folder=False)


def _rules(folder: Path, name: str) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        lines = (folder / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [(folder, GitIgnoreSpec.from_lines(_READERS[name](lines)))]


def _generated(lines: Sequence[str]) -> list[str]:
    """Return the patterns of generated files; `!` begins a pattern of other files."""
    words = [line.split() for line in lines if "linguist-generated" in line]
    unset = {"-linguist-generated", "linguist-generated=false"}
    return [pattern if unset.isdisjoint(signs) else f"!{pattern}" for pattern, *signs in words]


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
