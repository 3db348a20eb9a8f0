"""Runs of a content by passage: all that the relevance of a content to any query depends on.

They are a function of the content and of the size of its passages, so they can be remembered by both.
"""

from collections.abc import Sequence

from msgspec import Struct

from apportion.core.identity import text_digest
from apportion.core.query.passages import Passages, passages_of
from apportion.core.query.terms import Run, runs_of

_CONTENT_BYTES = 500
_PASSAGE_BYTES = 200
_RUN_BYTES = 64
"""The memory of a run without its characters, and its place in a list."""


class ContentRuns(Struct, frozen=True, gc=False):
    """The passages of a content, the runs of each, and the digest of each if there are several."""

    passages: Passages
    runs: Sequence[Sequence[Run]]
    digests: Sequence[str]

    def weight_bytes(self, content: str) -> int:
        """Return an upper estimate of its memory in bytes; its runs are parts of the content."""
        number = sum(map(len, self.runs))
        return _CONTENT_BYTES + _PASSAGE_BYTES * len(self.passages) + _RUN_BYTES * number + 4 * len(content)


def content_runs(content: str, passage_characters: int) -> ContentRuns:
    """Return the runs of a content in passages, in time linear in its length."""
    passages = passages_of(content, passage_characters)
    contents = passages.contents(content)
    digests = list(map(text_digest, contents)) if len(contents) > 1 else ()
    return ContentRuns(passages, list(map(runs_of, contents)), digests)
