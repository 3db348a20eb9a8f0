"""Facts about a file from its path alone, by common conventions: its role, module's name, and distances."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from apportion.demo.workload.text import common_length

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
"""Stems of files that are imported by the name of their folder."""
_SEPARATORS = re.compile(r"[./\\:]+")
_ENDINGS = frozenset({"h", "js", "json", "jsx", "mjs", "ts", "tsx"})
"""File endings that a module's name can have."""


class _Parsed(NamedTuple):
    """The parts of a path. A name such as `.editorconfig` has no ending."""

    folders: tuple[str, ...]
    stem: str
    ending: str


@lru_cache(maxsize=1 << 15)
def _parsed(path: str) -> _Parsed:
    *folders, name = path.split("/")
    dot = name.rfind(".")
    return _Parsed(tuple(folders), *((name[:dot], name[dot:]) if dot > 0 else (name, "")))


def is_test(path: str) -> bool:
    """Return whether a file is a test, by its folder or its name."""
    parsed = _parsed(path)
    return not _TEST_FOLDERS.isdisjoint(parsed.folders) or _TEST_STEM.fullmatch(parsed.stem) is not None


def subject(path: str) -> str:
    """Return the stem of the file that a test is named after (`foo` for `test_foo.py`), else its own."""
    stem = _parsed(path).stem
    found = _TEST_STEM.fullmatch(stem)
    return (found["after"] or found["before"]) if found else stem.lstrip("_")


def is_rule_doc(path: str) -> bool:
    """Return whether a file is a README or contributing guide of the whole repository."""
    parsed = _parsed(path)
    return parsed.folders in _HOMES and parsed.stem.split(".", 1)[0].lower() in _RULE_STEMS


def is_constraint(path: str) -> bool:
    """Return whether a file has the repository's owners, licence, security policy or editor settings."""
    parsed = _parsed(path)
    return parsed.folders in _HOMES and parsed.stem.lower() in _CONSTRAINT_STEMS


def module_names(path: str) -> tuple[str, ...]:
    """Return the last parts of the module names by which a file can be imported."""
    folders, stem, ending = _parsed(path)
    packaged = folders and (stem in _PACKAGE_STEMS or ending == ".go")
    return (stem, folders[-1]) if packaged else (stem,)


@lru_cache(maxsize=1 << 14)
def module_parts(module: str) -> tuple[str, ...]:
    """Return the parts of a module's name in any language (`a.b`, `./a/b.js`, `a::b`)."""
    parts = tuple(part for part in _SEPARATORS.split(module) if part)
    return parts[:-1] if len(parts) > 1 and parts[-1] in _ENDINGS else parts


def shared_tail(path: str, parts: tuple[str, ...]) -> int:
    """Return the number of equal parts at the end of a path, with or without its file, and of a module."""
    folders, stem, _ = _parsed(path)
    ends = ((*folders, stem), folders)
    return max(common_length(reversed(names), reversed(parts)) for names in ends)


def in_reach(path: str, importer: str) -> bool:
    """Return whether a module is in a top folder, or in the importer's folder or one of its parents."""
    folders, stem, _ = _parsed(path)
    home = folders[:-1] if stem in _PACKAGE_STEMS else folders
    return home in _TOPS or home == _parsed(importer).folders[: len(home)]


def nearness(path: str, others: Iterable[str]) -> float:
    """Return the nearness of a path to the nearest of other paths, from 0 to 1; without other paths, 0.

    The same file has 1. Other files have (1 + common leading folders) / (2 + folders of the deeper path),
    rounded to thousandths.
    """
    others = set(others)
    own, folders = _parsed(path).folders, [_parsed(other).folders for other in others]
    near = ((1 + common_length(own, other)) / (2 + max(len(own), len(other))) for other in folders)
    return 1.0 if path in others else round(max(near, default=0.0), 3)
