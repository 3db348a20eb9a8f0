"""Files of a folder, without those that a `.gitignore` names; and the files that git's attributes call generated."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from pathspec import GitIgnoreSpec

_Rules: TypeAlias = Sequence[tuple[Path, GitIgnoreSpec]]
"""Folders with their rules, from the top down."""
_IGNORE, _ATTRIBUTES = ".gitignore", ".gitattributes"
_GENERATED = {"linguist-generated": "", "linguist-generated=true": "", "linguist-vendored": ""}
_WRITTEN = {"-linguist-generated": "!", "linguist-generated=false": "!", "!linguist-generated": "!"}
_SIGNS = _GENERATED | _WRITTEN


def files_of(folder: Path, leave_out: Callable[[str], None]) -> Iterator[tuple[Path, bool]]:
    """Yield the files below a folder by name, each with whether an attribute calls it generated.

    The nearest `.gitignore` and `.gitattributes` with a rule for a file decide. `leave_out` takes a reason:
    `ignored`, `link` or `unreadable`.
    """
    tops = [parent for parent in (folder, *folder.parents) if (parent / ".git").exists()]
    between = [parent for parent in folder.parents if tops and parent.is_relative_to(tops[0])]
    above = [[found for parent in reversed(between) for found in _rules(parent, name)] for name in _READERS]
    yield from _below(folder, above, leave_out)


def _below(
    folder: Path, above: Sequence[_Rules], leave_out: Callable[[str], None]
) -> Iterator[tuple[Path, bool]]:
    rules = [[*found, *_rules(folder, name)] for found, name in zip(above, _READERS, strict=True)]
    ignores, attributes = rules
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        leave_out("unreadable")
        return
    for entry in entries:
        path = Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git":
            continue
        if entry.is_symlink():
            leave_out("link")
        elif _is_named(path, ignores, is_folder=is_folder):
            leave_out("ignored")
        elif is_folder:
            yield from _below(path, rules, leave_out)
        elif entry.is_file(follow_symlinks=False):
            yield path, _is_named(path, attributes, is_folder=False)


def _rules(folder: Path, name: str) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        lines = (folder / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [(folder, GitIgnoreSpec.from_lines(_READERS[name](lines)))]


def _generated(lines: Sequence[str]) -> list[str]:
    """Return the patterns of generated files; `!` begins a pattern of others."""
    found = [(line.split()[0], set(line.split()[1:]) & _SIGNS.keys()) for line in lines if line.strip()]
    return [_SIGNS[sign] + pattern for pattern, signs in found for sign in signs]


_READERS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    _IGNORE: lambda lines: lines,
    _ATTRIBUTES: _generated,
}


def _is_named(path: Path, rules: _Rules, *, is_folder: bool) -> bool:
    for folder, spec in reversed(rules):
        name = path.relative_to(folder).as_posix()
        include = spec.check_file(f"{name}/" if is_folder else name).include
        if include is not None:
            return include
    return False
