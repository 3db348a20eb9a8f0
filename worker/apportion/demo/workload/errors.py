"""The error of the workload, with a closed set of codes."""

from enum import StrEnum


class WorkloadErrorCode(StrEnum):
    """The codes of all errors of a workload's source."""

    GIT_MISSING = "git_missing"
    NOT_A_REPOSITORY = "not_a_repository"
    NO_COMMITS = "no_commits"
    UNKNOWN_REVISION = "unknown_revision"
    OBJECT_MISSING = "object_missing"
    RECORDING_MISSING = "recording_missing"
    RECORDING_DAMAGED = "recording_damaged"


class WorkloadError(Exception):
    """A workload's source is unusable.

    Attributes:
        code: what is wrong, of a closed set.
        message: what is wrong and what to do, for a person.
        place: the repository, revision, object or file that it is about.
    """

    def __init__(self, code: WorkloadErrorCode, message: str, place: str) -> None:
        super().__init__(f"{code}: {message} (at {place})")
        self.code = code
        self.message = message
        self.place = place
