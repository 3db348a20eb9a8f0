"""A report as one HTML file that needs no server and no network.

Text from clients (ids, kinds, names) is data in a block that no browser runs. The scripts show it as text.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from apportion.decisions.analytics.report import Report, inert

_LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")
_SCRIPTS = ("data.js", "charts.js", "sections.js", "table.js", "decision.js", "replayed.js", "main.js")


def page_of(report: Report) -> str:
    """Return the page. The same report gives the same page."""
    # one function around our own scripts, so that no name becomes global
    own = f"'use strict';\n(() => {{\n{''.join(map(_part, _SCRIPTS))}}})();\n"
    scripts = [*map(_part, _LIBRARIES), own]
    template = _part("report.html")
    for name, value in (
        ("policy", _content_security_policy(scripts)),
        ("style", _part("report.css")),
        ("scripts", "\n".join(f"<script>{script}</script>" for script in scripts)),
        ("report", inert(report).decode()),
    ):
        template = template.replace(f"<!--{name}-->", value, 1)
    return template


def _content_security_policy(scripts: Sequence[str]) -> str:
    """Return the policy: these scripts, inline styles of the charts, `data:` images; no network."""
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _part(name: str) -> str:
    return files("apportion.decisions.analytics").joinpath("html", name).read_text("utf-8")
