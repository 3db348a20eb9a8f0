"""Normal forms of paths, and ids that do not reveal the path."""

import base64
import hashlib
import posixpath
import re

from apportion.core.errors import ErrorCode, EventError
from apportion.core.fingerprints import fingerprint
from apportion.core.lru import process_wide

_PATHS_MAX = 1 << 12
PATH_REMEMBERED_MAX = 1 << 10
"""The longest path that is cached, in characters; a path may have 4,096."""


def long_path_id(secret: bytes, path: str, kind: str, lane: str, chunk_index: int) -> str:
    """Return a candidate's id, made from its normalised path: 24 characters that do not reveal the path."""
    named = f"{kind}:{lane}:{fingerprint(secret, path)}:{chunk_index}"
    return base64.urlsafe_b64encode(hashlib.sha256(named.encode()).digest())[:24].decode()


path_id = process_wide(_PATHS_MAX)(long_path_id)
"""`long_path_id` with a cache, for paths of at most PATH_REMEMBERED_MAX characters."""
_DRIVE = re.compile("[A-Za-z]:")
_NO_START = re.compile(r"/|[A-Za-z]:|\.\.?(?:/|\Z)")
"""The start of a path that is absolute, on a drive, the workspace itself, or above it."""
_NO_CHARACTER = re.compile(r"[\\\0]")


def _make_normal(path: str) -> str | None:
    normal = posixpath.normpath(path)
    bad = _NO_START.match(normal) or _DRIVE.match(path) or _NO_CHARACTER.search(path)
    return None if bad else normal


_normal = process_wide(_PATHS_MAX)(_make_normal)


def normalised_path(path: str, pointer: str) -> str:
    """Return the normal form of a relative POSIX path (`./a` becomes `a`).

    Raises EventError for an absolute or Windows path, which no pattern would match, and for one that leaves
    the workspace, names no file, or has a NUL.
    """
    normal = (_normal if len(path) <= PATH_REMEMBERED_MAX else _make_normal)(path)
    if normal is None:
        message = (
            "expected a relative POSIX path inside the workspace: parts joined by /, no backslash, no drive"
        )
        raise EventError(ErrorCode.INVALID_PATH, message, pointer)
    return normal
