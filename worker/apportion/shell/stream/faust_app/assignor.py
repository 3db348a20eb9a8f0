"""Faust's assignor, for static members that come back under another host name."""

from typing import Any

from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor


class AnyHostAssignor(PartitionAssignor):  # type: ignore[misc] # faust is followed by no type checker here
    """Accepts an assignment for any URL.

    A static member that returns within the session timeout gets its previous assignment, with the URL of its
    previous host. Faust asserts that the URL is the worker's own. No worker serves anything at that URL.
    """

    _assigned_url: str | None = None

    def on_assignment(self, assignment: Any) -> None:
        """Accept an assignment.

        Raises:
            AssertionError: it does not name the partitions that the group assigned.
        """
        self._assigned_url = ClientMetadata.loads(self._decompress(assignment.user_data)).url
        super().on_assignment(assignment)
        self._assigned_url = None

    @property
    def _url(self) -> Any:
        return self._assigned_url or super()._url
