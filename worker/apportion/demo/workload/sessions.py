"""Requests about the moments of a history for the other strategies, as other platforms would make them.

Contents, times and scores are those of the moment; only the form is made here.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
"""An event as JSON has it."""

_REVIEW_TOKENS = 4_000
_CHAT_TOKENS = 12_000
_CATEGORIES = {
    "local_diff": "divergence_alert",
    "semantic_match": "high_relevance_cluster",
    "symbol_context": "single_space_match",
    "session_history": "recent_session",
}
_HABITS = {"constraint": "constraint", "rule_doc": "directive", "test_context": "procedure"}
_NAMING = ("id", "kind", "path", "chunk_index")
_WEIGHED = ("content", "created_at", "relevance")
_HABIT_CHARACTERS = 480
_TURN_CHARACTERS = 4_000
_ASKED_CHARACTERS = 1_000
_READ_MAX = 3
_TURN_TIME = timedelta(seconds=30)


def review(moment: Event) -> Event:
    """Return the request of a reviewer with half the room, under `lanes`."""
    return _request(moment, "review", policy="lanes", budget_tokens=_REVIEW_TOKENS) | {
        "candidates": moment["candidates"]
    }


def recall(moment: Event) -> Event:
    """Return the request of a memory that is searched, under `categories`: what was found, by how.

    Sources agree on a file as often as it was found.
    """
    counts = Counter(candidate.get("path") for candidate in moment["candidates"])
    offered = [
        _named(candidate)
        | {name: candidate[name] for name in _WEIGHED}
        | {"category": category, "weighted_agreement": counts[candidate.get("path")]}
        for candidate in moment["candidates"]
        if (category := _CATEGORIES.get(candidate["kind"])) is not None
    ]
    return _request(moment, "recall", policy="categories") | {"candidates": offered}


def habits(moment: Event) -> Event:
    """Return the request of an agent with rules to keep in mind, under `tiers`.

    A rule is as active as it is relevant, beside the most relevant one.
    """
    rules = [candidate for candidate in moment["candidates"] if candidate["kind"] in _HABITS]
    most = max((rule["relevance"] for rule in rules), default=0) or 1
    offered = [
        _named(rule)
        | {
            "kind": _HABITS[rule["kind"]],
            "content": rule["content"].strip()[:_HABIT_CHARACTERS],
            "activation": round(rule["relevance"] / most, 3),
        }
        for rule in rules
    ]
    return _request(moment, "habits", policy="tiers") | {"candidates": offered}


def briefing(moment: Event, policy: str = "layers") -> Event:
    """Return the request of a briefing in three long texts, under `layers` or another of its strategy."""
    return _request(moment, "briefing", policy=policy) | {
        "layers": {
            "project": "\n\n".join(_contents(moment, "rule_doc")),
            "fabric": "\n\n".join(_contents(moment, "symbol_context", "dependency_graph")),
            "prior_work": "\n\n".join(_contents(moment, "session_history")),
        }
    }


def chat(moment: Event) -> Event:
    """Return the request of a chat about the change, under `conversation`: a turn for each piece of it."""
    turns: list[Event] = []
    for asked, answer in zip(
        _contents(moment, "local_diff", "recent_edit"),
        _contents(moment, "symbol_context", "semantic_match"),
        strict=False,
    ):
        turns.append({"role": "user", "content": asked[:_TURN_CHARACTERS]})
        turns.append({"role": "assistant", "content": answer[:_TURN_CHARACTERS]})
    return _request(moment, "chat", policy="conversation", budget_tokens=_CHAT_TOKENS) | {
        "conversation": {
            "system_prompt": "\n\n".join(islice(_contents(moment, "rule_doc"), 1)),
            "messages": turns,
            "new_message": "\n".join(islice(_contents(moment, "session_history"), 1)) or "What is next?",
        }
    }


class ToolChat:
    """A chat of a developer with an assistant that reads files by a tool, which grows by each moment."""

    def __init__(self, policy: str) -> None:
        """Begin without messages; `policy` is of strategy `conversation`."""
        self._policy = policy
        self._messages: list[Event] = []
        self._begun_at: datetime | None = None
        self._turns = 0

    def ask(self, moment: Event) -> Event:
        """Return the request of the next turn: a question about the moment, after all turns before."""
        if self._begun_at is None:
            self._begun_at = datetime.fromisoformat(moment["requested_at"])
            self._rules = "\n\n".join(islice(_contents(moment, "rule_doc"), 1))
        asked_at = self._begun_at + self._turns * _TURN_TIME
        question = (
            "What does this change do?\n" + next(_contents(moment, "local_diff"), "")[:_ASKED_CHARACTERS]
        )
        request = _request(moment, "assistant", policy=self._policy) | {
            "requested_at": asked_at.isoformat(),
            "conversation": {
                "system_prompt": self._rules,
                "messages": [*self._messages],
                "new_message": question,
            },
        }
        self._messages += [{"role": "user", "content": question}, *self._answer(moment)]
        self._turns += 1
        return request

    def _answer(self, moment: Event) -> Iterator[Event]:
        """Yield the messages of an answer: calls with their results, then a text."""
        read = islice(_contents(moment, "symbol_context", "semantic_match"), _READ_MAX)
        for number, content in enumerate(read):
            call = f"call_{self._turns}_{number}"
            function = {"name": "read_file", "arguments": f'{{"part":{number}}}'}
            yield {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
            yield {"role": "tool", "tool_call_id": call, "content": content[:_TURN_CHARACTERS]}
        said = next(_contents(moment, "session_history"), "It is as the commit message says.")
        yield {"role": "assistant", "content": said[:_ASKED_CHARACTERS]}


def _request(moment: Event, session: str, **named: Any) -> Event:
    return {
        "type": "context-request",
        "request_id": f"{session}/{moment['request_id']}",
        "session_id": session,
        "requested_at": moment["requested_at"],
        "trigger": moment["trigger"],
        **named,
    }


def _contents(moment: Event, *kinds: str) -> Iterator[str]:
    for candidate in moment["candidates"]:
        if candidate["kind"] in kinds and (content := candidate["content"].strip()):
            yield content


def _named(candidate: Event) -> Event:
    """Return what names a candidate, by which no path leaves."""
    return {name: candidate[name] for name in _NAMING if name in candidate}
