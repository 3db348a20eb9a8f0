"""Every error code is in docs/operations/errors.md with its remedy; bold codes have an entry in repair.md."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import apportion
from apportion.core.errors import ErrorCode

PACKAGE = Path(apportion.__file__).parent
PAGES = PACKAGE.parents[1] / "docs/operations"
CODES = (PAGES / "errors.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return CODES.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def error_types() -> Iterator[type[BaseException]]:
    """Yield every exception of the package that has a code."""
    for module in walk_packages(apportion.__path__, "apportion."):
        if module.name.endswith((".__main__", ".main")):  # they run when they are imported
            continue
        for value in vars(import_module(module.name)).values():
            is_ours = inspect.isclass(value) and value.__module__ == module.name
            if is_ours and issubclass(value, BaseException) and isinstance(getattr(value, "code", None), str):
                yield value


def test_the_page_has_every_error_type_with_its_remedy() -> None:
    codes = {str(one.code) for one in error_types()}  # type: ignore[attr-defined] # asked for above
    for path in PACKAGE.glob("cli/**/*.py"):
        codes |= set(re.findall(r'CommandError\(\s*"(\w+)"', path.read_text("utf-8")))
    assert {"event_failed", "invalid_settings", "not_sent"} <= codes, "they were not looked at"
    told = section("Of the worker") + section("Of commands")
    assert {code for code in codes if f"`{code}`" not in told} == set()


def test_the_page_has_the_codes_of_the_command_itself() -> None:
    for code in ("missing_extra", "file_failed"):  # of Python's own exceptions: apportion.cli
        assert code in (PACKAGE / "cli/__init__.py").read_text(encoding="utf-8")
        assert f"`{code}`" in CODES


def test_the_page_has_every_dead_letter_code_with_its_remedy() -> None:
    told = section("Of dead letters")
    assert {code for code in ErrorCode if f"`{code}`" not in told} == set()


def test_codes_with_an_entry_of_their_own_have_it() -> None:
    page = (PAGES / "repair.md").read_text(encoding="utf-8")
    entries = page.partition("\n## When the worker stops by itself\n")[2].partition("\n## ")[0]
    bold = {part.partition("`**")[0] for part in section("Of the worker").split("**`")[1:]}
    assert bold
    assert {code for code in bold if f"- **`{code}`**" not in entries} == set()
