"""The files of the folder `schemas/` that are made, not written.

Decides their names and how they are laid out: the same types give the same bytes.
"""

from pathlib import Path
from typing import Any

import msgspec
from tools.schemas import request_schemas, schemas
from tools.schemas.examples import answers

from apportion.core.wire.codec import encode


def files(folder: Path) -> dict[str, bytes]:
    """Return every made file of the folder, by its name in it; the examples of what comes in lie there."""
    made = {schema["$id"]: msgspec.json.encode(schema) for schema in _all()}
    made |= {f"examples/{name}": encode(event) for name, event in answers(folder / "examples")}
    return {name: msgspec.json.format(data, indent=2) + b"\n" for name, data in made.items()}


def _all() -> list[dict[str, Any]]:
    return [*schemas().values(), *request_schemas().values()]
