"""Resolution of the package together with the newest versions of other packages: `make check-install`.

A stack passes if a resolver finds a solution that changes none of its versions. The package index is asked
some twenty times, which takes minutes.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
STACKS = (
    ("langchain", "langchain langchain-openai langgraph"),
    ("litellm", "litellm[proxy]"),
    ("openai-agents", "openai-agents"),
    ("", "pydantic-ai"),
    ("client", "crewai"),
    ("", "semantic-kernel"),
    ("mcp", "fastapi instructor>=1.7"),
    ("analytics", "duckdb dagster prefect"),
    ("worker", "pandas numpy<2 scikit-learn rich<14"),
    ("", "apache-airflow"),
)
"""Extras of the package, and the packages of the stack. docs/install.md lists impossible combinations."""


def resolved(folder: Path, *requirements: str) -> dict[str, str]:
    """Return the newest versions that fit together; empty if none do."""
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(requirements), "utf-8")
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--no-header", "--no-annotate"]
    line = [*uv, "--quiet", "--python-version", "3.12", str(wanted)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603 - as installed
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", done.stdout, re.MULTILINE))


def problem(folder: Path, extra: str, stack: str) -> str:
    """Return the reason why the package does not install with a stack; empty if it does."""
    alone = resolved(folder, *stack.split())
    together = resolved(folder, f"{_named(extra)} @ {ROOT.as_uri()}", *stack.split())
    if not together:
        return "no solution"
    return ", ".join(
        f"{name} {alone[name]} -> {together[name]}" for name in alone if together.get(name) != alone[name]
    )


def _named(extra: str) -> str:
    return f"apportion[{extra}]" if extra else "apportion"


def main() -> int:
    """Print a line for each stack; return 1 if one has a problem."""
    failed = False
    with TemporaryDirectory() as folder:
        for extra, stack in STACKS:
            why = problem(Path(folder), extra, stack)
            failed = failed or bool(why)
            sys.stdout.write(f"{_named(extra)} beside {stack}: {why or 'ok'}\n")
            sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
