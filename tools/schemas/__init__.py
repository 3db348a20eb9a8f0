"""Schemas of all events, made from the types that decode and encode them.

The types describe all fields, so a schema cannot contradict its type. `python -m tools.schemas` writes the
files of `schemas/`. They are JSON Schema 2020-12, limited to keywords with the same meaning in draft-07,
which AsyncAPI's tools read.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from tools.schemas.document import document, file_name
from tools.schemas.requests import request_schema
from tools.schemas.structs import components

from apportion.contracts.schemas.policies import POLICY, policy_parts
from apportion.core.events import ContextArtifact, ContextRequest, ContextRetraction, ContextUsage
from apportion.core.results import ContextComposed, ContextDeadLetter, ContextDecision
from apportion.core.strategies import STRATEGIES

__all__ = ["EVENTS", "POLICY", "file_name", "request_schemas", "schemas"]

EVENTS: Mapping[str, type[msgspec.Struct]] = {
    str(event.__struct_config__.tag): event
    for event in (
        ContextRequest,
        ContextArtifact,
        ContextRetraction,
        ContextUsage,
        ContextComposed,
        ContextDecision,
        ContextDeadLetter,
    )
}
"""The events that are typed structs, by `type`. A policy is not, because its type depends on its strategy."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every event, by its `type`."""
    made = {name: _event_schema(name, event) for name, event in EVENTS.items()}
    return made | {POLICY: _policy_schema()}


def request_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of a request for each strategy: the common schema with narrower rules."""
    return {name: request_schema(strategy) for name, strategy in STRATEGIES.items()}


def _event_schema(name: str, event: type[msgspec.Struct]) -> dict[str, Any]:
    body, parts = components(event)
    return document(name, body, parts)


def _policy_schema() -> dict[str, Any]:
    return document(POLICY, *policy_parts())
