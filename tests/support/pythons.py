"""The other Pythons of this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))


def other_pythons() -> list[str]:
    """Return an interpreter of every version but the running one's that is on PATH, or that pyenv has."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *map(str, pyenv.glob("*/bin"))]
    found = []
    for version in _VERSIONS:
        if version != sys.version_info[:2]:
            name = f"python{version[0]}.{version[1]}"
            places = filter(None, (shutil.which(name, path=folder) for folder in folders))
            found += [next((place for place in places if _runs(place, version)), "")]
    return list(filter(None, found))


def _runs(interpreter: str, version: tuple[int, int]) -> bool:
    """Return whether that is an interpreter of that version: pyenv puts names on PATH that only complain."""
    code = "import sys; print(tuple(sys.version_info[:2]))"
    done = subprocess.run([interpreter, "-I", "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - installed interpreters
    return done.stdout.strip() == str(version)
