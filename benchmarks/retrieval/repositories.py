"""Cases from the history of a git repository: a commit's message, and the lines that it changed.

The query is the message. The sources are the files of the commit's parent in a known programming language.
The evidence are the lines that the commit changed or removed in files that are no tests. Of an addition, it
is the line before it. Blank lines are no evidence.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

from apportion.demo.workload.paths import is_test
from apportion.demo.workload.repository import FileChange, Repository, RepositoryCommit, WorkloadError
from benchmarks.retrieval.cases import Case, Part, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.functions import functions_of, is_source

CHANGED_FILES_MAX = 5
"""The largest number of source files that a commit may change, tests not counted."""
MESSAGE_WORDS_MIN = 5
FILE_MAX_CHARACTERS = 200_000
"""A longer file is generated, as a rule, and is left out."""
_MESSAGE_MAX_CHARACTERS = 16_384
_RECENT_COMMITS = 200
"""The commits before a case that say which files are new."""
_FIX = re.compile(r"\b(?:bug(?:s|fix|fixes)?|fix(?:e[sd]|ing)?|issues?|regressions?)\b", re.IGNORECASE)
_NO_FIX = re.compile(r"\b(?:comments?|docs?|documentation|spelling|typos?)\b", re.IGNORECASE)
"""Words in the first line of the message of a commit that fixes a bug, and of one that fixes prose."""
_SIGNATURE = re.compile(r"^[\w-]+-by: .*$", re.IGNORECASE | re.MULTILINE)


def is_fix(message: str) -> bool:
    """Return whether a commit fixes a bug, by words such as `fix` in the first line of its message."""
    subject = message.partition("\n")[0]
    return _FIX.search(subject) is not None and _NO_FIX.search(subject) is None


def change_cases(
    folder: Path, most: int, *, has_tests: bool = False, fixes_only: bool = False
) -> Iterator[Case]:
    """Yield at most a number of cases from the newest suitable commits of a repository.

    The kind of a case is `fix` or `other`. With `fixes_only`, other commits are left out. With `has_tests`,
    tests are sources, too; they are never evidence.

    A commit is suitable if it has one parent and a message of 5 words or more, changes lines of 1 to 5 source
    files that are not tests, and adds or removes no source file.

    Raises:
        DataError: the folder is not a repository, or an object is missing.
    """
    try:
        with Repository(folder) as repository:
            history = _History(repository, has_tests=has_tests, fixes_only=fixes_only)
            yield from islice(history.cases(folder.absolute().name.removesuffix(".git")), most)
    except WorkloadError as error:
        raise DataError(f"{folder}: {error}") from error


class _History:
    """The commits of a repository, with a source for each version of a file."""

    def __init__(self, repository: Repository, *, has_tests: bool, fixes_only: bool) -> None:
        self._repository = repository
        self._fixes_only = fixes_only
        self._is_candidate = is_source if has_tests else _counts
        self._commits = {commit.oid: commit for commit in repository.commits(repository.resolve("HEAD"))}
        self._source = lru_cache(maxsize=None)(partial(read_source, repository))
        self._changes = lru_cache(maxsize=None)(repository.changes)

    def cases(self, group: str) -> Iterator[Case]:
        """Yield the suitable commits, newest first."""
        for commit in reversed(self._commits.values()):
            parent = self._parent(commit)
            if parent is None or len(commit.parents) > 1:
                continue
            changes = [change for change in self._changes(parent.tree, commit.tree) if _counts(change.path)]
            _, message = self._repository.author_and_message(commit.oid)
            query = _SIGNATURE.sub("", message).strip()[:_MESSAGE_MAX_CHARACTERS]
            is_suitable = (
                1 <= len(changes) <= CHANGED_FILES_MAX
                and all(change.old and change.new for change in changes)
                and len(query.split()) >= MESSAGE_WORDS_MIN
                and (is_fix(query) or not self._fixes_only)
            )
            if is_suitable and (case := self._case(group, commit, parent, query, changes)):
                yield case

    def _case(
        self,
        group: str,
        commit: RepositoryCommit,
        parent: RepositoryCommit,
        query: str,
        changes: Sequence[FileChange],
    ) -> Case | None:
        """Return the case of a commit; None if no line counts as evidence."""
        files = [
            file for file in self._repository.changes(None, parent.tree) if self._is_candidate(file.path)
        ]
        sources = [source for file in files if (source := self._source(file.path, file.new))]
        places = {source.name: place for place, source in enumerate(sources)}
        evidence: set[Part] = set()
        units = []
        for change in changes:
            new = self._repository.text(change.new)
            if change.path not in places or new is None:
                return None
            place = places[change.path]
            source = sources[place]
            changed = _changed_lines(source.parts, new.split("\n"))
            evidence |= {(place, line) for line in changed}
            for first, end in functions_of(source):
                if own := changed & set(range(first, end)):
                    units.append(frozenset((place, line) for line in own))
        if not evidence:
            return None
        return Case(
            name=f"{group}/{commit.oid[:12]}",
            group=group,
            kind="fix" if is_fix(query) else "other",
            query=query,
            sources=tuple(sources),
            evidence=frozenset(evidence),
            newest_first=self._newest_first(parent, places),
            units=tuple(units),
            has_paths=True,
        )

    def _newest_first(self, commit: RepositoryCommit, places: dict[str, int]) -> list[int]:
        """Return the files that the last commits changed, the newest first."""
        found: dict[int, None] = {}
        current: RepositoryCommit | None = commit
        for _ in range(_RECENT_COMMITS):
            parent = None if current is None else self._parent(current)
            if current is None or parent is None:
                break
            for change in self._changes(parent.tree, current.tree):
                if change.path in places:
                    found.setdefault(places[change.path])
            current = parent
        return list(found)

    def _parent(self, commit: RepositoryCommit) -> RepositoryCommit | None:
        return self._commits.get(commit.parents[0]) if commit.parents else None


def read_source(repository: Repository, path: str, oid: str | None) -> Source | None:
    """Return a file as a source; None if it is absent, empty, no text, or too long."""
    try:
        text = repository.text(oid)
    except WorkloadError:  # a snapshot may omit large files
        return None
    if not text or len(text) > FILE_MAX_CHARACTERS:
        return None
    return Source(path, tuple(text.split("\n")))


def _counts(path: str) -> bool:
    return is_source(path) and not is_test(path)


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> set[int]:
    changed: set[int] = set()
    for tag, first, end, _, _ in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "insert":
            before = [line for line in range(first) if old[line].strip()]
            changed.update(before[-1:])
        elif tag != "equal":
            changed.update(line for line in range(first, end) if old[line].strip())
    return changed
