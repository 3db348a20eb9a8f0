"""Schemas of structs, with the docstrings under fields as descriptions.

msgspec only knows the docstring of a class, so the docstrings of fields are read from the source.
"""

import ast
import inspect
from textwrap import dedent
from typing import Any

import msgspec
from msgspec.structs import fields

from apportion.contracts.schemas.document import REF
from apportion.core import events, results

_STRUCTS = {
    name: found
    for module in (events, results)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, msgspec.Struct)
}


def components(event: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of an event, and the schemas of its structs by name."""
    _, parts = msgspec.json.schema_components([event], ref_template=REF)
    for name, part in parts.items():
        struct = _STRUCTS.get(name)
        names = {} if struct is None else {info.name: info.encode_name for info in fields(struct)}
        for field, description in _descriptions(struct).items():
            part["properties"][names[field]]["description"] = description
    return parts.pop(event.__name__), parts


def _descriptions(struct: type[msgspec.Struct] | None) -> dict[str, str]:
    """Return the docstrings under the fields of a struct, by field."""
    if struct is None:
        return {}
    [defined] = ast.parse(dedent(inspect.getsource(struct))).body
    assert isinstance(defined, ast.ClassDef)
    described = {}
    for field, below in zip(defined.body, defined.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                described[name] = inspect.cleandoc(text)
    return described
