"""The history of a git repository as `context-request.v1` events for the strategy `lanes`.

Each text file that a commit changes has a request, as if it was saved before the commit, in the order of
paths (`file_saved`, `file_deleted`). A request for the commit follows (`git_commit`). All have the same time,
the author date. Merges have no requests, because they would repeat the branch's requests.

A request contains only facts of its moment: the files that are saved so far, no commit message before the
commit, and no content of later commits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from apportion.demo.workload.candidates import Scene, gather, timestamp
from apportion.demo.workload.history import RepositoryHistory
from apportion.demo.workload.index import Index
from apportion.demo.workload.moment import Edit, Moment, edit, is_edit
from apportion.demo.workload.repository import FileChange, Repository, RepositoryCommit

EVENT_MAX_BYTES = 1 << 20
_PENDING_EDITS = 16
"""Number of a commit's edits, the largest, that its later requests contain."""

_encode = msgspec.json.Encoder().encode


class _Trigger(Struct, frozen=True):
    event: str
    workspace: str
    commitish: str | UnsetType
    rules_digest: str


class _Request(Struct, frozen=True, tag_field="type", tag="context-request"):
    request_id: str
    session_id: str
    requested_at: str
    policy: str | UnsetType
    trigger: _Trigger
    candidates: tuple[msgspec.Raw, ...]


def from_git(
    path: Path, revision: str = "HEAD", *, max_requests: int | None = None, policy: str | None = None
) -> Iterator[bytes]:
    """Yield a revision's history as events, each one line of JSON without its line feed.

    Commits are ordered by author date, ties by generation (parents first), then by oid. `max_requests` (≥ 1)
    gives only the last requests, with the same bytes. The same commit gives the same bytes for any location
    and configuration, except in a shallow clone. Raises ValueError or WorkloadError.
    """
    if max_requests is not None and max_requests < 1:
        raise ValueError(f"max_requests is {max_requests}, expected 1 or more")
    with Repository(path) as repository:
        yield from _Playback(repository, repository.resolve(revision), policy).requests(max_requests)


class _Playback:
    """One pass through a history, commit by commit in the order of time."""

    def __init__(self, repository: Repository, tip: str, policy: str | None) -> None:
        commits = repository.commits(tip)
        self._repository = repository
        self._commits = _by_time(commits)
        self._trees = {commit.oid: commit.tree for commit in commits}
        self._workspace = _first(commits, tip)
        self._policy = UNSET if policy is None else policy
        self._index = Index(repository)
        self._history = RepositoryHistory(repository, self._workspace)

    def requests(self, max_requests: int | None) -> Iterator[bytes]:
        """Yield the last requests, or all. The earlier history is read without making requests."""
        start, skipped = (0, 0) if max_requests is None else self._start(max_requests)
        for position, commit in enumerate(self._commits):
            changes = self._changes(commit)
            if _is_merge(commit):
                self._history.merge(commit, changes)
                continue
            if position >= start:
                for moment in islice(self._moments(commit, changes), skipped, None):
                    yield self._request(moment)
                skipped = 0
            self._history.record(commit, changes)

    def _start(self, max_requests: int) -> tuple[int, int]:
        """Return the index of the first commit of the last requests, and how many of its own to skip."""
        missing = max_requests
        for position in reversed(range(len(self._commits))):
            commit = self._commits[position]
            if not _is_merge(commit):
                missing -= 1 + sum(is_edit(self._repository, change) for change in self._changes(commit))
            if missing <= 0:
                return position, -missing
        return 0, 0

    def _moments(self, commit: RepositoryCommit, changes: Iterable[FileChange]) -> Iterator[Moment]:
        self._index.move_to(self._parent_tree(commit))
        session_id = self._history.session_id(commit)
        parent = commit.parents[0] if commit.parents else UNSET
        pending: tuple[Edit, ...] = ()
        for number, change in enumerate(changes):
            self._index.put(change.path, change.new)
            self._history.save(change, commit.time_s)
            if is_edit(self._repository, change):
                saved = edit(self._repository, change)
                largest = sorted((*pending, saved), key=lambda edit: (-edit.size, edit.path))
                pending = tuple(largest[:_PENDING_EDITS])
                name, event = f"{commit.oid}-{number}", "file_deleted" if change.new is None else "file_saved"
                yield Moment(name, session_id, commit.time_s, event, parent, (saved,), pending, "")
        self._index.move_to(commit.tree)
        name, message = f"{commit.oid}-commit", self._history.message(commit)
        yield Moment(name, session_id, commit.time_s, "git_commit", commit.oid, pending, pending, message)

    def _request(self, moment: Moment) -> bytes:
        """Return the request of a moment, with the first candidates that fit into `EVENT_MAX_BYTES`."""
        trigger = _Trigger(moment.event, self._workspace, moment.commitish, self._index.rules_digest())
        request = _Request(
            moment.request_id, moment.session_id, timestamp(moment.time_s), self._policy, trigger, ()
        )
        size = len(_encode(request))
        candidates: list[msgspec.Raw] = []
        for candidate in gather(Scene(self._repository, self._index, self._history, moment)):
            encoded = _encode(candidate)
            size += len(encoded) + 1
            if size > EVENT_MAX_BYTES:
                break
            candidates.append(msgspec.Raw(encoded))
        return _encode(structs.replace(request, candidates=tuple(candidates)))

    def _parent_tree(self, commit: RepositoryCommit) -> str | None:
        return self._trees[commit.parents[0]] if commit.parents else None

    def _changes(self, commit: RepositoryCommit) -> tuple[FileChange, ...]:
        return self._repository.changes(self._parent_tree(commit), commit.tree)


def _is_merge(commit: RepositoryCommit) -> bool:
    return len(commit.parents) > 1


def _by_time(commits: Sequence[RepositoryCommit]) -> list[RepositoryCommit]:
    """Return commits by author date; ties by generation, then oid."""
    generations: dict[str, int] = {}
    for commit in commits:
        generations[commit.oid] = 1 + max((generations[parent] for parent in commit.parents), default=0)
    return sorted(commits, key=lambda commit: (commit.time_s, generations[commit.oid], commit.oid))


def _first(commits: Sequence[RepositoryCommit], tip: str) -> str:
    """Return the last of a tip's first parents, which names the repository independently of its location."""
    parents = {commit.oid: commit.parents for commit in commits}
    while parents[tip]:
        tip = parents[tip][0]
    return tip
