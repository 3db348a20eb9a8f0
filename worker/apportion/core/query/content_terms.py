"""Terms of a content by passage: the only input from a content to its relevance.

They depend only on the content and the size of its passages, so they can be cached by both.
"""

from collections.abc import Sequence

from msgspec import Struct

from apportion.core.query.passages import Passages

_CONTENT_BYTES = 800
_PASSAGE_BYTES = 120


class ContentTerms(Struct, frozen=True, gc=False):
    """The passages of a content, the number of runs of each, and the terms in them.

    `entries` are of the type `terms.ENTRY`, and refer to bytes of `plain`. The `piece` of an entry is the
    index of its passage.
    """

    passages: Passages
    runs: Sequence[int]
    entries: bytes
    plain: bytes

    def weight_bytes(self, content: str) -> int:  # noqa: ARG002 - as values of other kinds
        """Return an upper estimate of its memory in bytes."""
        return _CONTENT_BYTES + _PASSAGE_BYTES * len(self.passages) + len(self.entries) + len(self.plain)
