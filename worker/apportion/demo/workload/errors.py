"""The error of the workload, and its codes."""

from enum import StrEnum


class WorkloadErrorCode(StrEnum):
    """All codes of a `WorkloadError`."""

    GIT_MISSING = "git_missing"
    NOT_A_REPOSITORY = "not_a_repository"
    NO_COMMITS = "no_commits"
    UNKNOWN_REVISION = "unknown_revision"
    OBJECT_MISSING = "object_missing"
    RECORDING_MISSING = "recording_missing"
    RECORDING_DAMAGED = "recording_damaged"


class WorkloadError(Exception):
    """The source of a workload is unusable.

    `message` states the problem and the remedy. `place` is the repository, revision, object or file.
    """

    def __init__(self, code: WorkloadErrorCode, message: str, place: str) -> None:
        super().__init__(f"{code}: {message} (at {place})")
        self.code = code
        self.message = message
        self.place = place
