"""The history up to a moment, and no later fact: sessions of authors, ages of contents, churn of files."""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from apportion.demo.workload.repository import FileChange, Repository, RepositoryCommit

REMEMBERED_COMMITS = 64
_REMEMBERED_PATHS = 64
_CHURN_HALF = 10
"""Number of changes at which the churn is one half."""


class Past(NamedTuple):
    """An earlier commit, and its first changed paths."""

    commit: RepositoryCommit
    paths: tuple[str, ...]


class RepositoryHistory:
    """The past of a workspace. It keeps a time for each content and a count for each path of the history."""

    def __init__(self, repository: Repository, workspace: str) -> None:
        self._repository = repository
        self._workspace = workspace
        self._written_s: dict[str, int] = {}
        self._changes: Counter[str] = Counter()
        self._recent: deque[Past] = deque(maxlen=REMEMBERED_COMMITS)

    def record(self, commit: RepositoryCommit, changes: Sequence[FileChange]) -> None:
        """Add a commit that is not a merge, with its changes against its parent."""
        for change in changes:
            self.save(change, commit.time_s)
        self._changes.update(change.path for change in changes)
        self._recent.append(Past(commit, tuple(change.path for change in changes[:_REMEMBERED_PATHS])))

    def save(self, change: FileChange, time_s: int) -> None:
        """Set the time at which a content was written last."""
        if change.new is not None:
            self._written_s[change.new] = time_s

    def merge(self, commit: RepositoryCommit, changes: Iterable[FileChange]) -> None:
        """Add a merge, with its changes against its first parent. Only new contents get its time."""
        for change in changes:
            if change.new is not None:
                self._written_s.setdefault(change.new, commit.time_s)

    def written_s(self, oid: str, now_s: int) -> int:
        """Return the time at which a content was written last; at most `now_s`, and by default `now_s`."""
        return min(self._written_s.get(oid, now_s), now_s)

    def churn(self, path: str) -> float:
        """Return the churn of a path: changes / (changes + 10), rounded to thousandths."""
        changes = self._changes[path]
        return round(changes / (changes + _CHURN_HALF), 3)

    def recent(self) -> list[Past]:
        """Return the last commits, the latest first."""
        return list(reversed(self._recent))

    def session_id(self, commit: RepositoryCommit) -> str:
        """Return the session of a commit: the author's digest in this workspace, and the ISO week in UTC."""
        email, _ = self._repository.author_and_message(commit.oid)
        author = hashlib.sha256(self._workspace.encode() + b"\0" + email.strip().lower()).hexdigest()[:16]
        year, week, _ = datetime.fromtimestamp(commit.time_s, UTC).isocalendar()
        return f"{author}-{year}-W{week:02}"

    def message(self, commit: RepositoryCommit) -> str:
        """Return a commit's message."""
        return self._repository.author_and_message(commit.oid)[1]
