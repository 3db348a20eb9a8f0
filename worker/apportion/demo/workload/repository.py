"""A git repository as an immutable store of commits, trees and blobs, read through the git command.

`rev-list` gives the commits, `diff-tree --stdin` the files that differ between two trees, and `cat-file
--batch` the bytes of objects. So no configuration, attribute, work tree, index or mail map changes the
result, and nothing that a repository configures is run or fetched.
"""

import os
import re
import shutil
import subprocess
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1, sha256
from pathlib import Path
from typing import IO, NamedTuple, Self

FILE_MAX_BYTES = 4 << 20
"""A larger file does not count as text, because nobody edits it by hand."""
PATH_MAX_CHARACTERS = 4096
_WINDOWS_PATH = re.compile(r"^[A-Za-z]:|\\")
"""A drive's letter or a backslash, which events do not accept in a path."""
_TIME_MAX_S = 253_402_300_799
"""The last second of the year 9999, and of RFC 3339."""

_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch missing objects
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_INDEX_FILE": f"{os.devnull}-index",  # no file: `diff-tree` would read an index for nothing
}
"""The whole environment of git. It excludes variables of this process, such as GIT_DIR inside a hook."""

_REV_LIST = ("rev-list", "--topo-order", "--reverse", "--format=%H %T %at %P")
_CONFIGURATION = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=true")
"""No command of a file monitor is run. Paths with special characters are always quoted."""
_DIFF_TREE = (*_CONFIGURATION, "diff-tree", "--stdin", "--raw", "-r", "--no-renames", "--no-abbrev")
_EMPTY_TREES = {len(new(b"").hexdigest()): new(b"tree 0\0").hexdigest() for new in (sha1, sha256)}
"""The oid of the empty tree, by the number of hex digits of the repository's oids."""
_QUESTIONS_MAX = 4096
"""Number of questions to a process before it is replaced, because `diff-tree` keeps all trees in memory."""
_AUTHOR = re.compile(rb"^author [^\n]*<(?P<email>[^>\n]*)>", re.MULTILINE)


class WorkloadError(Exception):
    """The source of a workload is unusable; `place` is the repository, revision, object or file."""

    def __init__(self, code: str, message: str, place: str) -> None:
        super().__init__(f"{code}: {message} (at {place})")
        self.code = code
        self.place = place


class RepositoryCommit(NamedTuple):
    """A commit without its message; `time_s` is its author date, limited to the years 1970 to 9999."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    time_s: int


class FileChange(NamedTuple):
    """A regular file that differs between two trees, with its blobs; None if it is absent."""

    path: str
    old: str | None
    new: str | None


class Repository:
    """A context manager over two git processes that answer questions; raises WorkloadError without git.

    The owner of the repository's folder is not checked (`safe.directory`), because its user named it and
    nothing in it is executed.
    """

    def __init__(self, path: Path) -> None:
        git = shutil.which("git")
        if git is None:
            raise WorkloadError("git_missing", "install git, or add it to PATH", "git")
        self._path = path
        self._git = (git, "-c", "safe.directory=*", "-C", str(path))
        if self._ask("rev-parse", "--git-dir") is None:
            message = "no git repository here; name a folder inside one, or a bare one"
            raise WorkloadError("not_a_repository", message, str(path))
        self._objects = _GitProcess(lambda: self._start("cat-file", "--batch", stdin=subprocess.PIPE))
        self._trees = _GitProcess(lambda: self._start(*_DIFF_TREE, stdin=subprocess.PIPE))
        self.text = lru_cache(maxsize=64)(self._text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._objects.end()
        self._trees.end()

    def resolve(self, revision: str) -> str:
        """Return the oid of the commit that a revision names; raise WorkloadError if there is none."""
        oid = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if oid is not None:
            return oid
        if not self._ask("rev-list", "--all", "--max-count=1"):
            message = "the repository has no commits yet; make one, or name another repository"
            raise WorkloadError("no_commits", message, str(self._path))
        message = "no commit has this name; name a branch, tag or commit that `git rev-parse` knows"
        raise WorkloadError("unknown_revision", message, revision)

    def commits(self, oid: str) -> tuple[RepositoryCommit, ...]:
        """Return a commit and all its ancestors, parents first; in a shallow clone, the available ones."""
        with self._start(*_REV_LIST, oid) as process:
            lines = (line for line in _opened(process.stdout) if not line.startswith(b"commit "))
            commits = tuple(map(_commit, lines))
        if process.returncode:
            raise _incomplete(oid)
        return commits

    def author_and_message(self, oid: str) -> tuple[bytes, str]:
        """Return the author's e-mail, unchanged, and the message, in UTF-8 or else ISO-8859-1, stripped."""
        header, _, message = self._receive(self._request(oid)).partition(b"\n\n")
        author = _AUTHOR.search(header)
        try:
            text = message.decode()
        except UnicodeDecodeError:
            text = message.decode("latin-1")
        return (author["email"] if author else b""), text.replace("\0", "\ufffd").strip()

    def changes(self, old: str | None, new: str | None) -> tuple[FileChange, ...]:
        """Return the regular files that differ between two trees, by path; None is the empty tree.

        Symlinks and submodules count as absent. So do files with a path that is not UTF-8, too long or not
        normalised. A rename is a removal and an addition. A changed mode alone is no difference.
        """
        if old == new:
            return ()
        pair = [tree or _EMPTY_TREES[len(old or new or "")] for tree in (old, new)]
        # git repeats a line that names no trees, so the empty line ends the answer
        lines = iter(self._trees.ask(f"{' '.join(pair)}\n\n").readline, b"\n")
        if not next(lines, b""):  # the pair
            raise _incomplete(pair[1])
        found: list[FileChange] = []
        for line in lines:
            if not line:
                raise _incomplete(pair[1])
            found += _changes(line)
        return tuple(sorted(found, key=lambda change: change.path))

    def _text(self, oid: str | None) -> str | None:
        """Return a blob's text, `""` for None; None if it is too large, contains NUL or is not UTF-8."""
        if oid is None:
            return ""
        size = self._request(oid)
        if size > FILE_MAX_BYTES:
            for start in range(0, size, FILE_MAX_BYTES):
                self._objects.answer.read(min(FILE_MAX_BYTES, size - start))
            self._objects.answer.read(1)
            return None
        content = self._receive(size)
        try:
            return None if b"\0" in content else content.decode()
        except UnicodeDecodeError:
            return None

    def _request(self, oid: str) -> int:
        """Request an object, and return its size; the object must be read next."""
        header = self._objects.ask(f"{oid}\n").readline().split()
        if len(header) != 3:  # noqa: PLR2004 - oid, type, size; for a missing object two words
            raise _incomplete(oid)
        return int(header[2])

    def _receive(self, size: int) -> bytes:
        return self._objects.answer.read(size + 1)[:-1]

    def _ask(self, *arguments: str) -> str | None:
        """Return the output of a git command without outer white space, or None if it fails."""
        process = self._start(*arguments)
        output, _ = process.communicate()
        return None if process.returncode else output.decode("ascii", "replace").strip()

    def _start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - no shell; names that users give follow options that take them
            (*self._git, *arguments),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )


class _GitProcess:
    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self._begin()

    def ask(self, question: str) -> IO[bytes]:
        """Write a question, and return the stream of its answer; it is empty if git has ended."""
        if self._asked == _QUESTIONS_MAX:
            self.end()
            self._begin()
        self._asked += 1
        stdin = _opened(self._process.stdin)
        with suppress(BrokenPipeError):
            stdin.write(question.encode())
            stdin.flush()
        return self.answer

    def end(self) -> None:
        """Close the pipes, and wait until the process has ended."""
        with suppress(BrokenPipeError), self._process:
            pass

    def _begin(self) -> None:
        self._process = self._start()
        self.answer = _opened(self._process.stdout)
        self._asked = 0


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "the process was started with this pipe"
    return pipe


def _incomplete(oid: str) -> WorkloadError:
    message = "the repository lacks an object or cannot read it; see `git fsck`, `git fetch --refetch`"
    return WorkloadError("object_missing", message, oid)


def _changes(line: bytes) -> Iterator[FileChange]:
    """Yield the change of a line of `diff-tree` (modes, oids, status and path), unless it does not count."""
    fields, _, name = line.removesuffix(b"\n").partition(b"\t")
    old_mode, new_mode, old, new, _ = fields.decode().removeprefix(":").split(" ")
    files = _file(old_mode, old), _file(new_mode, new)
    path = _path(name)
    if path is not None and files[0] != files[1]:
        yield FileChange(path, *files)


def _file(mode: str, oid: str) -> str | None:
    return oid if mode.startswith("100") else None


def _path(name: bytes) -> str | None:
    """Return the path of git's output, which may be quoted; None for a path that events do not accept."""
    try:
        path = (literal_eval(f"b{name.decode()}") if name.startswith(b'"') else name).decode()
    except UnicodeDecodeError:
        return None
    is_normal = len(path) <= PATH_MAX_CHARACTERS and {"", ".", ".."}.isdisjoint(path.split("/"))
    return path if is_normal and not _WINDOWS_PATH.search(path) else None


def _commit(line: bytes) -> RepositoryCommit:
    oid, tree, time_s, *parents = line.decode("ascii").rstrip("\n").split(" ")
    clamped = min(max(int(time_s or 0), 0), _TIME_MAX_S)
    return RepositoryCommit(oid, tree, tuple(parent for parent in parents if parent), clamped)
