"""The page of the decision record: its example is the record, its tables have every field."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.composing import answer, candidate, lanes_policy, request
from support.worked import example, outcome_of
from tools.schemas import schemas

from apportion.core.results import Detail, Reason
from apportion.core.wire.codec import encode
from apportion.settings import Settings

PAGE = (Path(__file__).parents[3] / "docs" / "decisions.md").read_text("utf-8")


def laid_out(decision: Mapping[str, Any]) -> str:
    """Return a decision as the page shows it: a field a line, and each row of a list on its own."""
    lines = []
    for name, value in decision.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            lines.append(f'  "{name}": [\n{rows}\n  ]')
        elif isinstance(value, dict) and len(json.dumps(value)) > 120:
            rows = ",\n".join(f'    "{key}": {json.dumps(part)}' for key, part in value.items())
            lines.append(f'  "{name}": {{\n{rows}\n  }}')
        else:
            lines.append(f'  "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def paths(schema: Mapping[str, Any], node: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield the path of every field, as `candidates[].id`, including nested fields."""
    for name, field in node["properties"].items():
        is_list = field.get("type") == "array"
        place, kind = f"{before}{name}" + "[]" * is_list, field["items"] if is_list else field
        yield place
        refs = [one["$ref"].rpartition("/")[2] for one in kind.get("anyOf", [kind]) if "$ref" in one]
        for part in (schema["$defs"][ref] for ref in refs):
            if "properties" in part:
                yield from paths(schema, part, f"{place}.")


SCHEMA = schemas()["context-decision"]


def told() -> list[str]:
    """Return the fields in the first columns of the tables, and the fields named in the text of a row."""
    fields = PAGE.partition("## Fields")[2].partition("## Reasons")[0]
    rows = [line for line in fields.splitlines() if line.startswith("| `")]
    known = set(paths(SCHEMA, SCHEMA))
    firsts = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert set(firsts) <= known
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row) if name in known]


def test_the_example_is_the_record_of_the_request_that_the_page_of_lanes_works_through() -> None:
    asked, _ = example("lanes")
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert block == laid_out(json.loads(encode(outcome_of(asked).decision)))


@pytest.mark.parametrize("field", [*paths(SCHEMA, SCHEMA)])
def test_the_page_has_every_field_of_the_schema(field: str) -> None:
    assert field in told()


def test_the_page_has_every_reason_and_detail() -> None:
    table = PAGE.partition("## Reasons and bounds")[2].partition("###")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= {*Reason}
    assert re.findall(r"^\| `(\w+)` \| ", PAGE.partition("## Less detail")[2], re.MULTILINE) == [*Detail]
    assert f"(`decision_omitted_max`, {Settings().decision_omitted_max:,})" in PAGE


def test_the_near_misses_of_the_page_are_selected_with_that_many_tokens_more() -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own code
    ones = [candidate(name, 10, relevance=0.9 - number / 10) for number, name in enumerate("abcdef")]
    tight = answer(request(ones, budget_tokens=20), lanes_policy()).decision
    assert names["near_misses"](tight, 25) == ["c", "d"]
    loose = answer(request(ones, budget_tokens=45), lanes_policy()).composed
    assert {"c", "d"} <= {item.id for item in loose.items}
