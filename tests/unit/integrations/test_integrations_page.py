"""The examples of docs/integrations.md: they print the shown output, and their decisions verify."""

import io
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from support.commands import ROOT, command, environment

PAGE = (ROOT / "docs" / "integrations.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_print_the_shown_output_and_decisions_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pasted: dict[str, Any] = {}
    printed = ""
    for language, block in BLOCKS:
        if language == "python":
            assert printed == "", "what an example prints stands under it"
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(block, "docs/integrations.md", "exec"), pasted)  # noqa: S102 - our own page
            printed = out.getvalue()
        elif language == "text":
            assert printed == block
            printed = ""
    _, verifying = [block for language, block in BLOCKS if language == "console"]
    line, _, shown = verifying.removeprefix("$ apportion ").partition("\n")
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command(*line.split()), env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.stdout + done.stderr, done.returncode) == (shown, 0)


def test_the_table_names_each_hook_and_its_extra() -> None:
    row = r"^\| .+ \| `([\w-]+)` \| `apportion\.integrations\.(\w+)\.\w+` \|$"
    rows = re.findall(row, PAGE, re.MULTILINE)
    modules = {path.stem for path in (ROOT / "worker/apportion/integrations").glob("*.py")}
    assert {module for _, module in rows} == modules - {"__init__", "fitter"}
    assert all(extra.replace("-", "_") == module for extra, module in rows)
