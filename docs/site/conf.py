"""Settings of the site: `make docs` copies the pages to build/pages, in the folders of the repository."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

project = html_title = "Apportion"
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["docs/site"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # examples are shortened: their `…` is no JSON and no SQL
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["cards.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sphinx = html_show_copyright = html_copy_source = False
copybutton_prompt_text = r"\$ |> "
copybutton_prompt_is_regexp = True
copybutton_here_doc_delimiter = "END"
copybutton_line_continuation_character = "\\"
copybutton_copy_empty_lines = False
NESTED = {"docs/adr/README": "0", "docs/operations": "operations/"}
"""Pages whose subpages the sidebar folds under them, and how links to subpages begin."""


def fold_subpages(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put a table of contents at the end of a page with subpages, in the order of its links to them."""
    links = re.findall(rf"\]\(({NESTED[page]}[^)#]*)\.md", source[0]) if page in NESTED else []
    if links:
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", "", *dict.fromkeys(links), "```\n"])


def link_folders(_app: Sphinx, page: nodes.document) -> None:
    """Link to folders as they are: they are no pages, and tests check that they exist."""
    for link in page.findall(pending_xref):
        if link["reftype"] == "myst" and link["reftarget"].endswith("/"):
            link.replace_self(nodes.reference("", "", *link.children, refuri=link["reftarget"]))


def setup(app: Sphinx) -> None:
    """Connect the hooks for subpages and folders."""
    app.connect("source-read", fold_subpages)
    app.connect("doctree-read", link_folders)
