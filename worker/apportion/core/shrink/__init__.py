"""Shrinking: four ways to make an artifact smaller, each a ladder of forms.

The module of each way documents the omitted parts, their order and their markers. No chosen form is empty,
costs more than the whole, or is cut inside a code point. The caller decides which artifact is shrunk.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from apportion.core.shrink import collapse_summary, drop_entries, keep_signatures, truncate_oldest
from apportion.core.shrink.ladder import Ladder, Rung, Shrunk
from apportion.core.shrink.parsing import Parsing

__all__ = ["SHRINK_BY_KIND", "Ladder", "Parsing", "ShrinkStrategy", "Shrunk", "ladder"]


class ShrinkStrategy(StrEnum):
    """The ways to shrink an artifact, by their names in policies and candidates."""

    NEVER = "never"
    TRUNCATE_OLDEST = "truncate_oldest"
    KEEP_SIGNATURES = "keep_signatures"
    COLLAPSE_SUMMARY = "collapse_summary"
    DROP_ENTRIES = "drop_entries"


SHRINK_BY_KIND: Mapping[str, ShrinkStrategy] = {
    "constraint": ShrinkStrategy.NEVER,
    "rule_doc": ShrinkStrategy.NEVER,
    "local_diff": ShrinkStrategy.TRUNCATE_OLDEST,
    "recent_edit": ShrinkStrategy.TRUNCATE_OLDEST,
    "symbol_context": ShrinkStrategy.KEEP_SIGNATURES,
    "dependency_graph": ShrinkStrategy.COLLAPSE_SUMMARY,
    "test_context": ShrinkStrategy.KEEP_SIGNATURES,
    "semantic_match": ShrinkStrategy.TRUNCATE_OLDEST,
    "session_history": ShrinkStrategy.DROP_ENTRIES,
    "violation": ShrinkStrategy.DROP_ENTRIES,
    "learning": ShrinkStrategy.DROP_ENTRIES,
}
"""The default for each kind; a policy or a candidate may override it. Source: the Composer specification."""


def ladder(
    strategy: ShrinkStrategy,
    content: str,
    count: Callable[[str], int],
    language: str | None = None,
    path: str | None = None,
    parsing: Parsing | None = None,
) -> Ladder | None:
    """Return the ladder of a content that is not empty; None for `never`.

    `count` returns the exact tokens of a form, in its template if there is one. `language`, or else `path`,
    determines the parser. `parsing` is shared by all artifacts of a request; without it, a new one is used.

    Raises:
        MissingExtraError: the strategy is `keep_signatures`, and the parser is not installed.
    """
    rungs: tuple[Rung, ...]
    match strategy:
        case ShrinkStrategy.NEVER:
            return None
        case ShrinkStrategy.TRUNCATE_OLDEST:
            rungs = truncate_oldest.rungs(content)
        case ShrinkStrategy.KEEP_SIGNATURES:
            rungs = keep_signatures.rungs(content, language, path, parsing or Parsing())
        case ShrinkStrategy.COLLAPSE_SUMMARY:
            rungs = collapse_summary.rungs(content)
        case ShrinkStrategy.DROP_ENTRIES:
            rungs = drop_entries.rungs(content)
    return Ladder(Shrunk(content, count(content)), rungs, count)
