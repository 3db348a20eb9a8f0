"""The documents lead where they say: links to files, the map to every room, the glossary to its classes."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_of_a_document_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def test_the_indices_name_every_page() -> None:
    for name, pages in (
        ("docs/README.md", {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/strategies/*.md")}),
        ("docs/adr/README.md", set(ROOT.glob("docs/adr/0*.md"))),
        ("docs/operations.md", set(ROOT.glob("docs/operations/*.md"))),
    ):
        index = ROOT / name
        named = re.findall(r"\]\(([^)#]+)\)", index.read_text("utf-8"))
        assert pages - {index} - {(index.parent / link).resolve() for link in named} == set()


def test_each_number_of_an_adr_is_used_once() -> None:
    numbers = Counter(page.name[:4] for page in ROOT.glob("docs/adr/0*.md"))
    assert numbers
    assert [number for number, count in numbers.items() if count > 1] == []


def test_the_glossary_has_each_term_once_and_names_classes_of_the_package() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^- \*\*(.+?)\*\*(?: \((.+?)\))?: ", page, re.MULTILINE)
    assert len(rows) == page.count("\n- ")
    terms = Counter(term for first, _ in rows for term in first.split(", "))
    assert [term for term, count in terms.items() if count > 1] == []
    sources = "".join(file.read_text("utf-8") for file in ROOT.glob("worker/apportion/**/*.py"))
    named = {name for _, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert named - set(re.findall(r"^class (\w+)", sources, re.MULTILINE)) == set()
