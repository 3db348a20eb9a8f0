"""Strategies as compactors of a transcript, for the compaction conformance kit.

A producer says which statement is about what; here the kit's own resolver does. The engine chooses and fits.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from compaction_kit.canaries import CanaryType
from compaction_kit.compacted import CompactedContext
from compaction_kit.semantic import extract_semantic_items
from compaction_kit.session import Turn

from support.asking import asked, conversation_policy
from support.composing import answer, lanes_policy, request

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CHARACTERS_OF_TOKEN = 4
RULES = {CanaryType.SAFETY_RULE: 1.0, CanaryType.HARD_CONSTRAINT: 0.9}
FACTS = {CanaryType.FACT: 0.8, CanaryType.GOAL_STATE: 0.7, CanaryType.USER_PREFERENCE: 0.6}
OF_HEADER = {kind.value.replace("_", " ").upper(): kind for kind in CanaryType}


def _lines(turns: Sequence[Turn]) -> list[str]:
    return [line for turn in turns for line in turn.text.splitlines() if line.strip()]


class LanesCompactor:
    """Strategy `lanes` with a floor for rules, one score, and a subject for each governed statement."""

    name = "lanes"

    def __init__(self, *, with_subjects: bool = True) -> None:
        self.with_subjects = with_subjects

    def compact(
        self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        assert budget_chars is not None
        total = budget_chars // CHARACTERS_OF_TOKEN
        policy = lanes_policy(
            budget_tokens=total,
            lanes={
                "rules": {"priority": 0, "min_tokens": total // 2, "max_tokens": total},
                "facts": {"priority": 1, "min_tokens": 0, "max_tokens": total},
                "history": {"priority": 2, "min_tokens": 0, "max_tokens": total // 10},
            },
            score={"recency": 0, "relevance": 100, "specificity": 0, "risk_alignment": 0},
        )
        outcome = answer(request(self.candidates_of(turns), requested_at=BEGIN.isoformat()), policy)
        assert outcome.composed.status == "composed"
        return CompactedContext(str(outcome.composed.text), compactor_name=self.name, round_num=round_num)

    def candidates_of(self, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        """Yield each line of a transcript as a candidate, a second after the line before it."""
        lines = _lines(turns)
        governed = {item.order: item for item in extract_semantic_items("\n".join(lines))}
        for number, line in enumerate(lines):
            item = governed.get(number)
            kind = next((kind for header, kind in OF_HEADER.items() if line.startswith(header)), None)
            kind = item.canary_type if item is not None else kind
            lane = "rules" if kind in RULES else "facts" if kind in FACTS else "history"
            candidate: dict[str, Any] = {
                "id": f"{number:04}",
                "content": line,
                "kind": "learning",
                "lane": lane,
                "relevance": 0.1 if kind is None else (RULES | FACTS)[kind],
                "created_at": (BEGIN + timedelta(seconds=number)).isoformat(),
                "shrink": "never",
            }
            if self.with_subjects and item is not None:
                candidate["subject"] = "/".join(item.key)
            yield candidate


class ConversationCompactor:
    """Strategy `conversation`, with the newest statement of each subject pinned."""

    name = "conversation"

    def compact(
        self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        assert budget_chars is not None
        total = budget_chars // CHARACTERS_OF_TOKEN
        lines = _lines(turns)
        governed = extract_semantic_items("\n".join(lines))
        newest = {item.key: item.order for item in governed}
        typed = {number for number, line in enumerate(lines) if line.startswith(tuple(OF_HEADER))}
        stale = {item.order for item in governed} - set(newest.values())
        conversation = {
            "messages": [{"role": "user", "content": line} for line in lines],
            "pinned": sorted({*newest.values(), *typed} - stale),
            "new_message": "Go on.",
        }
        policy = conversation_policy(total, 0, total, 0, message_overhead_tokens=0)
        outcome = answer(asked(conversation=conversation), policy)
        text = "\n".join(str(message["content"]) for message in outcome.composed.messages or ())
        return CompactedContext(text, compactor_name=self.name, round_num=round_num)
