"""The JSON Schema of a policy: one alternative for each strategy."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from apportion.contracts.schemas.document import REF
from apportion.core.strategies import STRATEGIES

POLICY = "context-policy"
"""The `type` of a policy in its topic."""


class _AsDeclared(GenerateJsonSchema):
    """A generator that keeps the order of fields, and leaves out titles, which only repeat names."""

    def sort(self, value: Any, parent_key: str | None = None) -> Any:  # noqa: ARG002 - pydantic's signature
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - likewise
        return False


def policy_parts() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a policy, and the schemas of its tables by name."""
    policy_types = {strategy.policy_type: name for name, strategy in STRATEGIES.items()}
    refs, generated = models_json_schema(
        [(policy_type, "validation") for policy_type in policy_types],
        ref_template=REF.replace("name", "model"),
        schema_generator=_AsDeclared,
    )
    parts: dict[str, Any] = generated["$defs"]
    choices = []
    for (policy_type, _), ref in refs.items():
        part = parts[ref["$ref"].removeprefix(REF.format(name=""))]
        part["properties"] = {"type": {"const": POLICY}} | part["properties"]
        part["properties"]["strategy"] = {"const": policy_types[policy_type]}
        part["required"] = ["type", *part["required"]]
        choices.append(ref)
    body = {
        "title": "ContextPolicy",
        "description": "A policy as its TOML file has it. What holds between keys, no schema says.",
        "oneOf": choices,
    }
    return body, parts
