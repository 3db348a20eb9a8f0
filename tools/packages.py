"""The table of packages in ARCHITECTURE.md, made from the first sentence of each package's docstring.

`python -m tools.packages` writes it. The layers are those of `[tool.importlinter]`, top to bottom.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "worker" / "apportion"
PAGE = ROOT / "ARCHITECTURE.md"
_BEGIN = "| package | contains |\n|---|---|\n"


def with_table(page: str) -> str:
    """Return ARCHITECTURE.md with the table of today's packages."""
    before, _, after = page.partition(_BEGIN)
    return before + _BEGIN + "".join(_rows()) + after[after.index("\n\n") + 1 :]


def _rows() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    wings = [name for layer in contracts[0]["layers"] for name in layer.split(" | ")]
    folders = [PACKAGE / wing for wing in wings if (PACKAGE / wing).is_dir()]
    packages = [
        path
        for folder in folders
        for path in (folder, *sorted(folder.iterdir()))
        if (path / "__init__.py").exists()
    ]
    return [f"| {_name(path)} | {_contents(path)} |\n" for path in packages]


def _name(path: Path) -> str:
    name = f"`{path.relative_to(PACKAGE).as_posix()}/`"
    return f"**{name}**" if path.parent == PACKAGE else name


def _contents(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse((path / "__init__.py").read_text("utf-8"))) or ""
    return docstring.partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
