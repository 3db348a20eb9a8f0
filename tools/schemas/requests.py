"""Schemas of requests for one strategy: the common schema without fields that the strategy does not read."""

from typing import Any

from tools.schemas.document import document
from tools.schemas.structs import components

from apportion.contracts.schemas.document import REF
from apportion.core.accept import STRATEGY_FIELDS
from apportion.core.events import ContextRequest
from apportion.core.strategy_api.strategy import CandidateNeeds, Strategy

_CANDIDATE, _CONSTRAINTS = "Candidate", "Constraints"


def request_schema(strategy: Strategy[Any, Any]) -> dict[str, Any]:
    """Return the schema. It does not check names of lanes, kinds of candidates, or contents of messages."""
    body, parts = components(ContextRequest)
    body["title"] += f" for strategy {strategy.name}"
    body["description"] = f"Asks for one composition under a policy of strategy {strategy.name}."
    body["required"] = [*body["required"], *sorted(strategy.needs)]
    unread = set(STRATEGY_FIELDS) - strategy.reads - {"constraints"}
    body["properties"] = {name: field for name, field in body["properties"].items() if name not in unread}
    for name, field in parts[_CONSTRAINTS]["properties"].items():
        if f"constraints.{name}" not in strategy.reads:
            field["maxItems"] = 0
    parts[_CANDIDATE] |= _needed(strategy.candidate_needs)
    if strategy.candidate_needs.unless_query:
        items = {"required": list(strategy.candidate_needs.unless_query)}
        body["if"] = {"not": {"required": ["query"]}}
        body["then"] = {"properties": {"candidates": {"items": items}}}
    return document(f"context-request.{strategy.name}", body, _reached(body, parts))


def _needed(needs: CandidateNeeds) -> dict[str, Any]:
    """Return the required fields of a candidate: an id or a path, and the fields of the strategy."""
    choices = [choice for choice in ((("id",), ("path",)), needs.alternatives) if choice]
    any_of_each = [{"anyOf": [{"required": list(fields)} for fields in choice]} for choice in choices]
    always = [field for field in needs.every if field not in needs.unless_query]
    return {"required": always, "allOf": any_of_each}


def _reached(body: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts to which there are still references."""
    reached: dict[str, Any] = {}
    nodes: list[Any] = [body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix(REF.format(name=""))
            if name and name not in reached:
                reached[name] = parts[name]
                nodes.append(parts[name])
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return reached
