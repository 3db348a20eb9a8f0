"""Generated files of the folder `schemas/`. The same types give the same bytes."""

from pathlib import Path

import msgspec
from tools.schemas import request_schemas, schemas
from tools.schemas.examples import answers

from apportion.core.wire.codec import encode


def files(folder: Path) -> dict[str, bytes]:
    """Return the generated files by name; the examples of inputs are read from the folder."""
    generated = (*schemas().values(), *request_schemas().values())
    made = {schema["$id"]: msgspec.json.encode(schema) for schema in generated}
    made |= {f"examples/{name}": encode(event) for name, event in answers(folder / "examples")}
    return {name: msgspec.json.format(data, indent=2) + b"\n" for name, data in made.items()}
