"""Index of the working folder at one moment: words, definitions, imports and roles of its files."""

import hashlib
import heapq
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

import msgspec

from apportion.demo.workload import paths
from apportion.demo.workload.documents import machine_made
from apportion.demo.workload.repository import Repository
from apportion.demo.workload.syntax import Definition, SourceOutline, outline
from apportion.demo.workload.text import chunks, head, lines, words

ANALYSED_MAX_CHARACTERS = 1 << 18
"""Only this many characters of a file are in the index."""
_SHARED_MAX = 64
"""Number of files with a module's name that are examined, in the order of their paths."""
_SIMILAR_FILES = 8
_NONE: AbstractSet[str] = frozenset()


_ROLES = ("rule_doc", "constraint")
"""Roles of files that apply to the whole repository."""


class _Profile(NamedTuple):
    oid: str | None
    words: frozenset[str]
    outline: SourceOutline


_ABSENT = _Profile(None, frozenset(), SourceOutline((), ()))


class Index:
    """The working folder, empty at first. Memory grows with the files of one state, not with the history."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._tree: str | None = None
        self._profiles: dict[str, _Profile] = {}
        self._found: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        self._profile = lru_cache(maxsize=1024)(self._read_profile)
        self._lines = lru_cache(maxsize=128)(lambda oid: lines(self._text(oid)))
        self.chunks = lru_cache(maxsize=128)(lambda oid: tuple(chunks(self._text(oid))))

    def move_to(self, tree: str | None) -> None:
        """Replace the content of the folder by a tree."""
        for change in self._repository.changes(self._tree, tree):
            self.put(change.path, change.new)
        self._tree = tree

    def put(self, path: str, oid: str | None) -> None:
        """Save a blob as a file, or remove the file. A blob that is no text or machine-made removes it."""
        if oid is not None and oid == self.oid(path):
            return
        if (old := self._profiles.pop(path, None)) is not None:
            for kind, key in set(_keys(path, old)):
                self._found[kind][key].remove(path)
                if not self._found[kind][key]:
                    del self._found[kind][key]
        if oid is not None and (new := self._profile(path, oid)) is not None:
            self._profiles[path] = new
            for kind, key in _keys(path, new):
                self._found[kind].setdefault(key, set()).add(path)

    def oid(self, path: str) -> str | None:
        """Return the blob of a text file, or None if there is no such file."""
        return self._profiles.get(path, _ABSENT).oid

    def files(self, role: str) -> list[str]:
        """Return the files of a role, `rule_doc` or `constraint`, by path."""
        return sorted(self._holders("role", role))

    def rules_digest(self) -> str:
        """Return a digest of the paths and blobs of all files with a role."""
        bound = [(path, self.oid(path)) for role in _ROLES for path in self.files(role)]
        return "sha256:" + hashlib.sha256(msgspec.json.encode(bound)).hexdigest()

    def weight(self, word: str, without: Collection[str]) -> int:
        """Return 1 + log2(all files / files with the word), rounded down; or 0. `without` is left out."""
        holders = self._holders("word", word)
        others = len(holders) - sum(path in holders for path in without)
        return (len(self._profiles) // others).bit_length() if others else 0

    def similar(self, weights: Mapping[str, int], without: Collection[str]) -> list[str]:
        """Return up to 8 files with the heaviest common words, relative to their size; ties by path."""
        scores: Counter[str] = Counter()
        for word, weight in weights.items():
            for path in self._holders("word", word):
                scores[path] += weight
        for path in without:
            scores.pop(path, None)
        ranked = ((-(score**2) / len(self._profiles[path].words), path) for path, score in scores.items())
        return [path for _, path in heapq.nsmallest(_SIMILAR_FILES, ranked)]

    def definitions(self, path: str) -> Sequence[Definition]:
        """Return the definitions in a file, in order."""
        return self._profiles.get(path, _ABSENT).outline.definitions

    def defining(self, name: str) -> list[str]:
        """Return the files that define a name, by path."""
        return sorted(self._holders("definition", name))

    def source(self, path: str, definition: Definition) -> str:
        """Return the first chunk of a definition's text, without common indentation."""
        file_lines = self._lines(self.oid(path))
        return head(textwrap.dedent("".join(file_lines[definition.start : definition.end])))

    def imports(self, path: str) -> list[str]:
        """Return the imports of a file: paths of files in the folder, else names of modules."""
        modules = self._profiles.get(path, _ABSENT).outline.imports
        return sorted({self._resolved(path, module) or module for module in modules})

    def importers(self, path: str) -> list[str]:
        """Return the files that import a file, by path."""
        pool = {other for name in paths.module_names(path) for other in self._holders("import", name)}
        looked_at = heapq.nsmallest(_SHARED_MAX, pool - {path})
        return [other for other in looked_at if self._imports(other, path)]

    def tests_of(self, path: str) -> list[str]:
        """Return the tests that are named after a file, then those that import it; both by path."""
        named = sorted(self._holders("tested", paths.subject(path)) - {path})
        importing = (other for other in self.importers(path) if paths.is_test(other))
        return [*dict.fromkeys((*named, *importing))]

    def _imports(self, importer: str, path: str) -> bool:
        names = paths.module_names(path)
        return any(
            self._resolved(importer, module) == path
            for module in self._profiles[importer].outline.imports
            if not set(names).isdisjoint(paths.module_parts(module))
        )

    def _resolved(self, importer: str, module: str) -> str | None:
        """Return the file that a module's name most likely means; None if it is likely of another project."""
        parts = paths.module_parts(module)
        best: tuple[int, float, str] | None = None
        for name in parts[-2:]:
            for path in heapq.nsmallest(_SHARED_MAX, self._holders("module", name)):
                shared = paths.shared_tail(path, parts)
                if path != importer and (shared > 1 or paths.in_reach(path, importer)):
                    rank = (-shared, -paths.nearness(path, (importer,)), path)
                    best = rank if best is None else min(best, rank)
        return None if best is None else best[2]

    def _holders(self, kind: str, key: str) -> AbstractSet[str]:
        return self._found[kind].get(key, _NONE)

    def _read_profile(self, path: str, oid: str) -> _Profile | None:
        text = self._text(oid)
        if not text or machine_made(path, text):
            return None
        return _Profile(oid, frozenset(map(sys.intern, words(text))), outline(path, text))

    def _text(self, oid: str | None) -> str:
        return (self._repository.text(oid) or "")[:ANALYSED_MAX_CHARACTERS]


def _keys(path: str, profile: _Profile) -> Iterator[tuple[str, str]]:
    """Yield all keys of a file, each after its kind; they depend only on its path and blob."""
    for word in profile.words:
        yield "word", word
    for definition in profile.outline.definitions:
        yield "definition", definition.name
    for module in profile.outline.imports:
        for part in paths.module_parts(module)[-2:]:
            yield "import", part
    for name in paths.module_names(path):
        yield "module", name
    if paths.is_test(path):
        yield "tested", paths.subject(path)
    if paths.is_rule_doc(path):
        yield "role", "rule_doc"
    if paths.is_constraint(path):
        yield "role", "constraint"
