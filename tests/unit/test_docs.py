"""The documents lead where they say: links to files, and the map to every room."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_of_a_document_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def test_the_map_names_every_room() -> None:
    named = set(
        re.findall(
            r"^\| `worker/apportion/(\w+)/", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE
        )
    )
    assert named == {folder.parent.name for folder in ROOT.glob("worker/apportion/*/__init__.py")}
