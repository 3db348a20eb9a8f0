"""The page of licences names all that ships."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[3]
PIN = re.compile(r"^(\S+)==(\S+)( ; sys_platform == 'win32')?", re.MULTILINE)
ROW = re.compile(r"^\| (\S+) \| (\S+) \| (\S.*) \|$", re.MULTILINE)


def test_the_licences_page_has_every_shipped_pin_with_version_and_licence() -> None:
    page = (FOLDER / "docs" / "licences.md").read_text("utf-8")
    named = {
        (name.lower().replace("_", "-"), version): licence for name, version, licence in ROW.findall(page)
    }
    pinned = {
        (name, version)
        for file in ("run.txt", "worker.txt")
        for name, version, elsewhere in PIN.findall((FOLDER / "requirements" / file).read_text())
        if not elsewhere
    }
    assert pinned == named.keys(), "write it again: make licences"
    assert not any("UNKNOWN" in licence for licence in named.values())
