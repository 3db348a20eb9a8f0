"""Shared parts of tests of files for other systems: the files, and the pages that show them."""

import re
from pathlib import Path

from support.commands import ROOT

DEPLOY = ROOT / "deploy"


def statements(file: Path) -> list[str]:
    """Return the statements of a file of SQL."""
    return [one for one in re.split(r";\n", file.read_text("utf-8")) if one.strip()]


def shown(page: Path) -> list[str]:
    """Return the blocks of code that a page shows."""
    return re.findall(r"^```\w*\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
