"""The files of the folder `schemas/` that are made, not written.

Decides their names and how they are laid out: the same types give the same bytes.
"""

from pathlib import Path

import msgspec

from apportion.core.wire import encode
from apportion.schemas import file_name, schemas
from apportion.schemas.examples import answers


def files(folder: Path) -> dict[str, bytes]:
    """Return every made file of the folder, by its name in it; the examples of what comes in lie there."""
    made = {file_name(event): msgspec.json.encode(schema) for event, schema in schemas().items()}
    made |= {f"examples/{name}": encode(event) for name, event in answers(folder / "examples")}
    return {name: msgspec.json.format(data, indent=2) + b"\n" for name, data in made.items()}
