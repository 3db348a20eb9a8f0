"""The Python examples of docs/client.md, run against their own gateway."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

from support.commands import ROOT
from support.gateways import running

PYTHON = (ROOT / "docs/client.md").read_text("utf-8").partition("\n## TypeScript\n")[0]
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PYTHON, re.DOTALL | re.MULTILINE)


def test_each_example_prints_the_shown_output() -> None:
    assert len(EXAMPLES) == PYTHON.count("```python")
    pasted: dict[str, Any] = {}
    with running() as (_, url):
        for block, shown in EXAMPLES:
            code = block.replace("http://localhost:8080", url)
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(code, "docs/client.md", "exec"), pasted)  # noqa: S102 - our own page
            assert out.getvalue() == shown
