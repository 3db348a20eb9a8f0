"""The licences of what the image installs, as a page: a CycloneDX list in, Markdown out (`make licences`).

Decides nothing about licences: it repeats what each package says of itself.
"""

import json
import sys
from typing import Any

_CLASSIFIER = "License :: "
_HEAD = """# Licences of what ships

The image and `pip install 'apportion[worker]'` install these packages, each under its own licence;
Apportion itself is under Apache-2.0 (`LICENSE`). Their texts are in each package's `.dist-info`
folder. What they bring as compiled code (`toktok-rs`, `tree-sitter`, `pydantic_core` and others)
has parts of others in it, for which they answer. The image stands on Debian and CPython (PSF-2.0),
whose licences are in it under `/usr/share/doc` and `/usr/local/lib`.

Made by `make licences` from the list (CycloneDX) that `make sbom` writes, and that stands in the image as
`/opt/apportion/share/apportion.cdx.json`.

| package | its version | licence, as it says itself |
|---|---|---|
"""


def main() -> None:
    """Write the page."""
    sys.stdout.write(_HEAD)
    components = json.load(sys.stdin)["components"]
    for component in sorted(components, key=lambda each: str(each["name"]).lower()):
        said = ", ".join(_licence(each) for each in component["licenses"])
        sys.stdout.write(f"| {component['name']} | {component['version']} | {said} |\n")


def _licence(choice: dict[str, Any]) -> str:
    """Return an expression or identifier of SPDX, or the last part of a classifier."""
    if "expression" in choice:
        return str(choice["expression"])
    named = choice["license"]
    return str(named.get("id") or named["name"].removeprefix(_CLASSIFIER).rpartition(" :: ")[2])


main()
