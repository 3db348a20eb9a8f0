"""Faust's assignor, for static members that come back under another host name."""

from typing import Any

from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor


class AnyHostAssignor(PartitionAssignor):  # type: ignore[misc] # faust is followed by no type checker here
    """Takes an assignment whichever URL it was made for.

    A static member that is back within its session gets the assignment of before, with the URL of the host
    where it ran. Faust asserts that the URL is its own. No worker serves anything at that URL.
    """

    _assigned_url: str | None = None

    def on_assignment(self, assignment: Any) -> None:
        """Take over an assignment.

        Raises:
            AssertionError: it does not name the partitions that the group gave.
        """
        self._assigned_url = ClientMetadata.loads(self._decompress(assignment.user_data)).url
        super().on_assignment(assignment)
        self._assigned_url = None

    @property
    def _url(self) -> Any:
        return self._assigned_url or super()._url
