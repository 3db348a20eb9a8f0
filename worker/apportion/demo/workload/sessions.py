"""Requests for all strategies, derived from the `lanes` requests of a history, with cut contents."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]

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
_OFFERED_MAX = 8
_TOOLS = {
    "read_file": "Read a part of a file",
    "search_code": "Search the repository for code",
    "list_files": "List the files of a folder",
    "edit_file": "Replace a text in a file",
    "run_tests": "Run the tests of a module",
    "show_change": "Show what a commit changed, line by line",
    "create_issue": "Create an issue with a title and a text",
    "comment_on_pull_request": "Add a comment to a pull request",
    "deploy": "Deploy a version to an environment",
    "query_database": "Run a query against the database",
    "send_message": "Send a message to a channel of the team",
    "schedule_meeting": "Schedule a meeting with people of the team",
}
"""The assistant's tools, by name."""
_TURN_TIME = timedelta(seconds=30)


def review(moment: Event) -> Event:
    """Return a request under `lanes` with half the budget."""
    budgeted = _request(moment, "review", policy="lanes", budget_tokens=_REVIEW_TOKENS)
    return budgeted | {"candidates": moment["candidates"]}


def recall(moment: Event) -> Event:
    """Return a memory search under `categories`; agreement is the number of candidates with the path."""
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
    """Return rules for an agent, under `tiers`, cut to 480 characters; the most relevant has activation 1."""
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
    """Return a request of three long texts, under `layers` or another policy of that strategy."""
    return _request(moment, "briefing", policy=policy) | {
        "layers": {
            "project": "\n\n".join(_contents(moment, "rule_doc")),
            "fabric": "\n\n".join(_contents(moment, "symbol_context", "dependency_graph")),
            "prior_work": "\n\n".join(_contents(moment, "session_history")),
        }
    }


def chat(moment: Event) -> Event:
    """Return a request of a chat under `conversation`; each turn pairs an edit with a related text."""
    turns: list[Event] = []
    questions = _contents(moment, "local_diff", "recent_edit")
    answers = _contents(moment, "symbol_context", "semantic_match")
    for question, answer in zip(questions, answers, strict=False):
        turns.append({"role": "user", "content": question[:_TURN_CHARACTERS]})
        turns.append({"role": "assistant", "content": answer[:_TURN_CHARACTERS]})
    return _request(moment, "chat", policy="conversation", budget_tokens=_CHAT_TOKENS) | {
        "conversation": {
            "system_prompt": "\n\n".join(islice(_contents(moment, "rule_doc"), 1)),
            "messages": turns,
            "new_message": "\n".join(islice(_contents(moment, "session_history"), 1)) or "What is next?",
        }
    }


class ToolChat:
    """A chat with an assistant that has tools and files. Each moment adds a turn, 30 s after the last."""

    def __init__(self, policy: str) -> None:
        """Begin without messages; `policy` is of strategy `request`."""
        self._policy = policy
        self._messages: list[Event] = []
        self._begun_at: datetime | None = None
        self._turns = 0

    def ask(self, moment: Event) -> Event:
        """Return the request of the next turn: all earlier turns, and a question about the moment."""
        if self._begun_at is None:
            self._begun_at = datetime.fromisoformat(moment["requested_at"])
            self._rules = "\n\n".join(islice(_contents(moment, "rule_doc"), 1))
        asked_at = self._begun_at + self._turns * _TURN_TIME
        changed = next(_contents(moment, "local_diff"), "")[:_ASKED_CHARACTERS]
        question = f"What does this change do?\n{changed}"
        request = _request(moment, "assistant", policy=self._policy) | {
            "requested_at": asked_at.isoformat(),
            "conversation": {
                "system_prompt": self._rules,
                "messages": [*self._messages],
                "new_message": question,
            },
            "query": question,
            "tools": [_definition(name, description) for name, description in _TOOLS.items()],
            "candidates": [
                candidate | {"lane": "retrieved"}
                for candidate in moment["candidates"]
                if candidate["lane"] == "retrieved"
            ][:_OFFERED_MAX],
        }
        self._messages += [{"role": "user", "content": question}, *self._answer(moment)]
        self._turns += 1
        return request

    def _answer(self, moment: Event) -> Iterator[Event]:
        """Yield the messages of an answer: tool calls with their results, then a text."""
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


def _definition(name: str, description: str) -> Event:
    properties = {part: {"type": "string"} for part in name.split("_")}
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


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
    """Return the fields from which a candidate's id is made."""
    return {name: candidate[name] for name in _NAMING if name in candidate}
