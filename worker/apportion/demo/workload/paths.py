"""Facts about a file from its path alone: its role, its module's name, its nearness to another path.

They follow conventions that are common across languages. No file is opened.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing"})
_TEST_STEM = re.compile(
    r"test_(?P<after>.+)|(?P<before>.+?)(?:[_.-](?:test|tests|spec)|(?<=[a-z0-9])(?:Tests?|Spec))"
)
_RULE_STEMS = frozenset(
    {"readme", "contributing", "agents", "claude", "conventions", "styleguide", "hacking"}
)
_CONSTRAINT_STEMS = frozenset({".editorconfig", "codeowners", "license", "licence", "copying", "security"})
_HOMES = frozenset({(), (".github",), ("docs",), ("doc",)})
"""Folders in which rules and constraints bind the whole repository."""
_TOPS = frozenset({(), ("src",), ("lib",)})
"""Folders from which modules are named."""
_PACKAGE_STEMS = frozenset({"__init__", "index", "mod", "lib"})
"""Files that are imported by the name of their folder."""
_SEPARATORS = re.compile(r"[./\\:]+")
_ENDINGS = frozenset({"h", "js", "json", "jsx", "mjs", "ts", "tsx"})
"""What can stand at the end of a module's name without being part of it."""


class _Parsed(NamedTuple):
    """A path taken apart; `.editorconfig` is all stem."""

    folders: tuple[str, ...]
    stem: str
    ending: str


@lru_cache(maxsize=1 << 15)
def _parsed(path: str) -> _Parsed:
    *folders, name = path.split("/")
    dot = name.rfind(".")
    return _Parsed(tuple(folders), *((name[:dot], name[dot:]) if dot > 0 else (name, "")))


def is_test(path: str) -> bool:
    """Return whether a path is a test's, by its folder or its name."""
    parsed = _parsed(path)
    return not _TEST_FOLDERS.isdisjoint(parsed.folders) or _TEST_STEM.fullmatch(parsed.stem) is not None


def subject(path: str) -> str:
    """Return the stem of what a test is named after (`foo` of `test_foo.py`); of other files, their own."""
    stem = _parsed(path).stem
    found = _TEST_STEM.fullmatch(stem)
    return (found["after"] or found["before"]) if found else stem.lstrip("_")


def is_rule_doc(path: str) -> bool:
    """Return whether a path is a README or contributing guide of the whole repository."""
    parsed = _parsed(path)
    return parsed.folders in _HOMES and parsed.stem.split(".", 1)[0].lower() in _RULE_STEMS


def is_constraint(path: str) -> bool:
    """Return whether a path states who owns the repository, or its licence, security or editor policy."""
    parsed = _parsed(path)
    return parsed.folders in _HOMES and parsed.stem.lower() in _CONSTRAINT_STEMS


def module_names(path: str) -> tuple[str, ...]:
    """Return the last parts of the module names by which a file can be imported."""
    folders, stem, ending = _parsed(path)
    packaged = folders and (stem in _PACKAGE_STEMS or ending == ".go")
    return (stem, folders[-1]) if packaged else (stem,)


@lru_cache(maxsize=1 << 14)
def module_parts(module: str) -> tuple[str, ...]:
    """Return the parts of a module's name, however its language joins them (`a.b`, `./a/b.js`, `a::b`)."""
    parts = tuple(part for part in _SEPARATORS.split(module) if part)
    return parts[:-1] if len(parts) > 1 and parts[-1] in _ENDINGS else parts


def shared_tail(path: str, parts: tuple[str, ...]) -> int:
    """Return how many parts at the end a path, its package's file left out, and a module's name share."""
    folders, stem, _ = _parsed(path)
    ends = ((*folders, stem), folders)
    return max(_shared(reversed(names), reversed(parts)) for names in ends)


def in_reach(path: str, importer: str) -> bool:
    """Return whether a module lies at the top, or beside the importer or in a folder around it."""
    folders, stem, _ = _parsed(path)
    home = folders[:-1] if stem in _PACKAGE_STEMS else folders
    return home in _TOPS or home == _parsed(importer).folders[: len(home)]


def nearness(path: str, others: Iterable[str]) -> float:
    """Return how near a path is to the nearest of others: 1 is the same file; 0 where there are none.

    (1 + leading folders shared) / (2 + folders of the deeper one), rounded to thousandths.
    """
    return max((_nearness(path, other) for other in others), default=0.0)


def _nearness(path: str, other: str) -> float:
    if path == other:
        return 1.0
    folders, others = _parsed(path).folders, _parsed(other).folders
    return round((1 + _shared(folders, others)) / (2 + max(len(folders), len(others))), 3)


def _shared(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many parts two sequences have in common at their beginnings."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
