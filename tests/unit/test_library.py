"""The library `apportion`: its names, its imports, and every example of its pages."""

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, assert_type

import pytest
from support.composing import artifact, candidate, lanes_policy, request

import apportion
from apportion import library

NAMES = vars(library)["__all__"]
ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("fit", "library", "providers")}
TYPED = PAGES | {"client": (ROOT / "docs" / "client.md").read_text("utf-8")}
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FOREIGN = {"aiokafka", "faust", "mode", "pydantic_settings", "rich", "typer"}


def imported_by(code: str) -> set[str]:
    """Return the modules that an interpreter of its own has after the code, without our environment."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "worker")}
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    out = subprocess.check_output(command, env=environment, text=True)  # noqa: S603 - our own interpreter
    return set(out.split())


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_the_shown_output(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pasted: dict[str, Any] = {}
    printed = [""]
    for language, block in FENCED.findall(PAGES[page]):
        match language:
            case "python":
                with redirect_stdout(io.StringIO()) as out:
                    exec(compile(block, f"docs/{page}.md", "exec"), pasted)  # noqa: S102 - our own page
                assert printed[-1] == "", "what an example prints stands under it"
                printed.append(out.getvalue())
            case "text":
                assert printed.pop() == block != ""
            case "toml":
                Path(block.partition("\n")[0].removeprefix("# ")).write_text(block, "utf-8")
    assert printed[-1] == ""


def test_a_type_checker_accepts_the_examples_of_the_pages(tmp_path: Path) -> None:
    for page, text in TYPED.items():
        blocks = [block for language, block in FENCED.findall(text) if language == "python"]
        (tmp_path / f"{page}.py").write_text("\n".join(blocks))
    pasted = [str(tmp_path / f"{page}.py") for page in TYPED]
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *pasted]
    checked = subprocess.run(  # noqa: S603 - our own interpreter
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.stdout == f"Success: no issues found in {len(TYPED)} source files\n"


def test_every_function_and_value_is_on_a_page() -> None:
    told = set(re.findall(r"\w+", "".join(PAGES.values())))
    values = {name for name in NAMES if name in (name.lower(), name.upper())}
    assert {"COUNTERS", "compose"} < values <= told


def test_importing_the_package_loads_no_other_module() -> None:
    before = imported_by("")
    after = imported_by("import apportion")
    assert {name for name in after - before if name.startswith("apportion")} == {
        "apportion",
        "apportion.version",
    }
    assert not after & (FOREIGN | {"msgspec", "pydantic"})


def test_using_all_of_it_loads_neither_kafka_nor_settings_nor_a_command() -> None:
    modules = imported_by("from apportion import *; COUNTERS['o200k_base']")
    assert "apportion.core.compose" in modules
    assert not modules & (FOREIGN | {"apportion.settings", "apportion.cli", "apportion.shell.stream"})


def test_every_name_is_the_rooms_own_and_can_be_found() -> None:
    assert all(getattr(apportion, name) is getattr(library, name) for name in NAMES)
    assert set(NAMES) < set(dir(apportion))


def test_a_name_that_it_does_not_promise_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"^module 'apportion' has no attribute 'import_modules'$"):
        getattr(apportion, "import_modules")  # noqa: B009 - a type checker refuses it, as it should


def test_its_engine_has_this_version_and_no_secret() -> None:
    assert (
        apportion.Engine(apportion.ENGINE_VERSION, apportion.COUNTERS, models=apportion.builtin_models())
        == apportion.ENGINE
    )


def test_a_type_checker_sees_the_returned_types() -> None:
    asked = request([candidate("a")])
    answered = apportion.compose(asked, apportion.EMPTY, lanes_policy(budget_tokens=2_000), apportion.ENGINE)
    assert_type(answered, apportion.Answered)
    assert_type(answered.composed, apportion.ContextComposed)
    assert_type(answered.decision, apportion.ContextDecision)
    assert_type(apportion.decode(apportion.encode(asked), apportion.Bounds()), apportion.Event)
    row = apportion.publish(artifact(candidate("b")), answered.session, apportion.ENGINE)
    assert_type(row, apportion.Session)
    assert (row.prompts, [pooled.id for pooled in row.pool]) == (1, ["b"])
