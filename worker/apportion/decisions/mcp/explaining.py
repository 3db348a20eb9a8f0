"""Decisions and candidates as results of the tools, and their explanations as text."""

import re
from collections.abc import Sequence
from io import StringIO
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict
from rich.console import Console, RenderableType

from apportion.core.results import ContextDecision, Entry, Group
from apportion.core.strategies import meaning_of
from apportion.decisions.mcp.results import (
    DecisionSummary,
    ExplainedCandidate,
    ExplainedDecision,
    ExplainedGroup,
    SearchedChange,
)
from apportion.decisions.mcp.sources import ListedDecision
from apportion.decisions.replay.why import Why

IDS_MAX = 10
_CANDIDATES_MAX = 50
_TEXT_MAX_CHARACTERS = 20_000
_COLUMNS = 140
_PADDING = re.compile("[ █░│]{2,}")
"""Bars, and the space between columns, which cost a model tokens."""
_CUT = "\n… cut, see the structured content"

T = TypeVar("T")


def summary_of(decision: ContextDecision | ListedDecision) -> DecisionSummary:
    """Return a decision without its candidates."""
    policy, tokens = decision.policy, decision.tokens
    own = asdict(decision) | {
        "policy": policy.name,
        "policy_version": policy.version,
        "strategy": policy.strategy,
        "limit_tokens": tokens.limit,
        "used_tokens": tokens.used,
        "reasons": {str(count.reason): count.count for count in decision.reasons},
    }
    return DecisionSummary(**own)


def explained(decision: ContextDecision, entries: Sequence[Entry] | None = None) -> ExplainedDecision:
    """Return a decision with its first candidates, or with these entries of one candidate."""
    listed = decision.candidates if entries is None else entries
    total = decision.candidates_total if entries is None else len(entries)
    shown = listed[:_CANDIDATES_MAX]
    return ExplainedDecision(
        decision=summary_of(decision),
        groups=[_group(group) for group in decision.groups],
        candidates=[_candidate(decision, entry) for entry in shown],
        candidates_left_out=total - len(shown),
    )


def changes_of(found: Why) -> list[SearchedChange]:
    """Return the changes that a search found, each with the first candidates that it displaces."""
    return [
        SearchedChange(
            key=change.key,
            now=change.now,
            needed=_present(change.needed),
            ended=change.ended,
            displaced=list(change.displaced[:IDS_MAX]),
            displaced_total=len(change.displaced),
        )
        for change in found.changes
    ]


def bounded(text: str) -> str:
    """Return a text that a model can read in one piece: a longer text is cut at its end."""
    if len(text) <= _TEXT_MAX_CHARACTERS:
        return text
    return text[: _TEXT_MAX_CHARACTERS - len(_CUT)] + _CUT


def text_of(shown: RenderableType) -> str:
    """Return an explanation as text."""
    text = StringIO()
    Console(file=text, width=_COLUMNS, color_system=None, highlight=False).print(shown)
    shown = _PADDING.sub(" ", text.getvalue().strip())
    return "\n".join(line.rstrip() for line in shown.splitlines())


def _group(group: Group) -> ExplainedGroup:
    return ExplainedGroup(
        name=group.name,
        min_tokens=group.min,
        max_tokens=_present(group.max),
        used_tokens=group.used,
        available_tokens=group.available,
        selected=group.selected,
        rejected=group.rejected,
    )


def _candidate(decision: ContextDecision, entry: Entry) -> ExplainedCandidate:
    margin, redundant = entry.margin, _present(entry.redundant)
    meaning = None if entry.reason is UNSET else meaning_of(decision.policy.strategy, entry.reason)
    own: dict[str, Any] = {name: _present(value) for name, value in asdict(entry).items()}
    return ExplainedCandidate(
        **own,
        meaning=None if meaning is None else meaning.text,
        needed_tokens=None if margin is None else margin.needed,
        left_tokens=None if margin is None else margin.left,
        more_tokens=_present(entry.more),
        covered_by=None if redundant is None else redundant.covered_by,
    )


def _present(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value
