"""Settings of the site: `make docs` copies the pages to build/pages, in the folders of the repository."""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

project = html_title = "Apportion"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["docs/site"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # examples are shortened: their `…` is no JSON and no SQL
html_theme = "furo"
html_show_sphinx = html_show_copyright = html_copy_source = False


def link_folders(_app: Sphinx, page: nodes.document) -> None:
    """Link to folders as they are: they are no pages, and tests check that they exist."""
    for link in page.findall(pending_xref):
        if link["reftype"] == "myst" and link["reftarget"].endswith("/"):
            link.replace_self(nodes.reference("", "", *link.children, refuri=link["reftarget"]))


def setup(app: Sphinx) -> None:
    """Connect the hook for folders."""
    app.connect("doctree-read", link_folders)
