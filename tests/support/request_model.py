"""The rules of `request`, slow and simple.

`conversation` and `lanes` have oracles of their own. So each is asked as it is, in the room that the rules of
`request` give it.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.models import NO_FRAME, NO_SCALE, Model
from apportion.core.strategies import parse_policy
from support import query_rules
from support.asking import asked
from support.composing import answer

MOST = 1 << 20


class Material(NamedTuple):
    """The answer of `lanes`, and its tokens as a message."""

    answer: Answered
    tokens: int


class RequestModel:
    """One request without a session, by the rules; `history` is None if it is infeasible."""

    def __init__(
        self, fields: Mapping[str, Any], policy: Mapping[str, Any], model: Model | None, engine: Engine
    ) -> None:
        self.fields, self.policy, self.engine, self.model = fields, policy, engine, model
        self.frame = NO_FRAME if model is None else model.frame
        self.scale = NO_SCALE if model is None else model.scale or NO_SCALE
        self.counter = policy["counter"] if model is None else model.counter
        self.overhead = self.frame.message or policy["history"]["message_overhead_tokens"]
        self.sent_tools = {tool["name"]: tool for tool in fields.get("tools", [])}
        self.costs = {name: self._tool_tokens(tool) for name, tool in self.sent_tools.items()}
        self.total = fields["budget_tokens"] - fields["response_tokens"]
        self.chosen: list[str] = []
        self.history: Answered | None = None
        self.material: Material | None = None
        if (must := self._must()) is not None:
            self._compose(must)

    def _compose(self, must: Sequence[str]) -> None:
        fixed = self._fixed()
        for shorten in (False, True):
            room = self.total - self._together(must)
            pinned = self._pinned(room)
            left = room - (max(0, room) if pinned is None else pinned) - fixed
            if shorten or not self.policy["tools"].get("shorten") or self._all_fit(must, left):
                break
            self._shorten()
        if pinned is None or room <= pinned:
            return
        self.chosen = self._chosen(must, max(0, left))
        rest = left - (self._together(self.chosen) - self._together(must))
        history_room = fixed + rest
        if "candidates" in self.fields and rest > 0:
            own = self.policy["material"]["share"]
            history_room -= min(rest, self.fields.get("material_tokens", rest * own // 1_000))
        history = self._history(history_room, **self.policy["history"])
        if history.composed.status == "infeasible":
            return
        self.history = history
        if "candidates" in self.fields:
            used = self._together(self.chosen) + history.composed.tokens.used
            self.material = self._lanes(self.fields["candidates"], self.total - used)

    def _tool_tokens(self, tool: Mapping[str, Any]) -> int:
        separators = (",", ":") if self.model is None else None
        tokens = self.engine.counters[self.counter].count(
            json.dumps(tool, ensure_ascii=False, sort_keys=True, separators=separators)
        )
        return -(-tokens * self.scale.json // 1_000) + self.frame.tool

    def _together(self, names: Sequence[str]) -> int:
        return sum(self.costs[name] for name in names) + (self.frame.tools if names else 0)

    def _must(self) -> list[str]:
        conversation = self.fields["conversation"]
        calls = [
            call["function"]["name"]
            for message in (*conversation["messages"], conversation["new_message"])
            if isinstance(message, dict)
            for call in message.get("tool_calls") or ()
        ]
        keep = self.policy["tools"]["keep_called"]
        named = {*(calls[-keep:] if keep else ()), self.fields.get("tool_choice", {}).get("name")}
        return [name for name in self.costs if name in named]

    def _all_fit(self, must: Sequence[str], left: int) -> bool:
        least = self._together(must)
        together = self._together([*self.costs])
        return bool(together <= max(least, min(self.policy["tools"]["max_tokens"], left + least)))

    def _shorten(self) -> None:
        """Keep one sentence of descriptions, and names of parameters, unless the choice names the tool."""
        named = self.fields.get("tool_choice", {}).get("name")
        for name, tool in self.sent_tools.items():
            if name != named:
                properties = tool["input_schema"]["properties"]
                schema: Any = {"properties": {parameter: {} for parameter in properties}}
                first = tool["description"].partition(". ")[0] + "." * (". " in tool["description"])
                self.sent_tools[name] = {"name": name, "description": first, "input_schema": schema}
        self.costs = {name: self._tool_tokens(tool) for name, tool in self.sent_tools.items()}

    def _chosen(self, must: Sequence[str], more: int) -> list[str]:
        least = self._together(must)
        room = max(least, min(self.policy["tools"]["max_tokens"], more + least))
        if self._together([*self.costs]) <= room:
            return [*self.costs]
        names, chosen = [*self.costs], [*must]
        shares = self._shares()
        for name in sorted(names, key=lambda name: (-shares[name], names.index(name))):
            if name not in chosen and self._together([*chosen, name]) <= room:
                chosen.append(name)
        return [name for name in names if name in chosen]

    def _shares(self) -> dict[str, int]:
        tools = self.fields["tools"]
        texts = [["\n".join([tool["name"], tool["description"], *_properties(tool)])] for tool in tools]
        raws = [{"id": str(index), "path": tool["name"]} for index, tool in enumerate(tools)]
        found, _ = query_rules.relevances(self._query(), texts, raws, {"stems": True})
        return {tool["name"]: max(shares) for tool, shares in zip(tools, found, strict=True)}

    def _query(self) -> str:
        if "query" in self.fields:
            return str(self.fields["query"])
        conversation = self.fields["conversation"]
        new = conversation["new_message"]
        new = {"role": "user", "content": new} if isinstance(new, str) else new
        said = [each["content"] for each in [*conversation["messages"], new] if each["role"] == "user"]
        return _text(said[-1]) if said else ""

    def _fixed(self) -> int:
        """Return the least room of a chat whose texts are not shortened."""
        own = self.policy["history"]["message_overhead_tokens"]

        def feasible(room: int) -> int:
            answered = self._history(room, message_overhead_tokens=own, total=MOST)
            return int(answered.composed.status != "infeasible")

        return bisect_left(range(MOST), 1, lo=1, key=feasible)

    def _history(self, room: int, *, message_overhead_tokens: int, total: int = 0, **tables: Any) -> Answered:
        """Return the chat in a room; its largest texts depend on the total."""
        table = {
            "system_tokens": 0,
            "messages_tokens": 100_000,
            "response_tokens": 0,
            "whole_system_prompt": True,
            "repair": True,
            "message_overhead_tokens": message_overhead_tokens,
        }
        raw = self._raw(
            "conversation", conversation=table, session={"max_tokens_per_request": room}, **tables
        )
        fields: dict[str, Any] = {"conversation": self.fields["conversation"]}
        if self.model is not None:
            fields["model"], raw["counter"] = self.model.name, "model"
        request = asked(budget_tokens=total or self.total, **fields)
        return answer(request, parse_policy(raw), engine=self.engine)

    def _pinned(self, room: int) -> int | None:
        """Return the tokens of the protected candidates alone; None if they do not fit."""
        if "candidates" not in self.fields:
            return 0
        entries = self._lanes(self.fields["candidates"], MOST).answer.decision.candidates
        lists = ("pinned", "must_include")
        named = {
            each.id
            for each in entries
            if each.constraint and each.constraint.startswith(lists) and each.fidelity
        }
        if not named:
            return 0
        alone = self._lanes([each for each in self.fields["candidates"] if each["id"] in named], room)
        return alone.tokens if alone.answer.composed.status == "composed" else None

    def _lanes(self, candidates: Iterable[Mapping[str, Any]], room: int) -> Material:
        tables = {name: table for name, table in self.policy["material"].items() if name != "share"}
        limit = max(0, room - self.overhead) * 1_000 // self.scale.text
        given = {
            name: self.fields[name] for name in ("query", "constraints", "vitals") if name in self.fields
        }
        request = asked(candidates=[*candidates], budget_tokens=limit, **given)
        answered = answer(request, parse_policy(self._raw("lanes", **tables)), engine=self.engine)
        used = answered.composed.tokens.used
        return Material(answered, -(-used * self.scale.text // 1_000) + self.overhead if used else 0)

    def _raw(self, strategy: str, **tables: Any) -> dict[str, Any]:
        budget = {"conversation": 100_000, "lanes": 0}[strategy]
        fields = {"version": "1", "strategy": strategy, "counter": self.counter, "budget_tokens": budget}
        return {"name": "part", **fields, **tables}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block["text"] for block in content)
    return content or ""


def _properties(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for part in value for name in _properties(part)]
    if not isinstance(value, dict):
        return []
    own = [*value["properties"]] if isinstance(value.get("properties"), dict) else []
    return own + [name for part in value.values() for name in _properties(part)]
