"""`python -m tools.schemas [FOLDER]` writes the schemas and their examples into a folder, `schemas`."""

import sys
from pathlib import Path

from tools.schemas.files import files

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "schemas")
for name, data in files(folder).items():
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
