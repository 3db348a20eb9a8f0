"""`apportion policies check` and `list`: policy files judged, and the policies that are known."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli._settings import read_settings, with_settings
from worker.cli._table import print_table

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check and list policies.")


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, readable=True)
    ],
) -> None:
    """Say what is wrong with policy files: every error of every file at once, with file, key and reason.

    Prints name, version, strategy and digest of the others. Exits with 1 if one is refused.

    Examples:
      apportion policies check policies/*.toml
    """
    from worker.core.policy import PolicyError, Problem
    from worker.policies import load_policy

    rows: list[tuple[str, ...]] = []
    problems: list[Problem] = []
    for file in files:
        try:
            policy = load_policy(file)
        except PolicyError as error:
            problems += (Problem(f"{file}: {each.key}", each.reason) for each in error.problems)
        else:
            rows.append((str(file), "ok", policy.name, policy.version, policy.strategy, policy.digest))
    if rows:
        print_table(("File", "Status", "Name", "Version", "Strategy", "Digest"), rows)
    if problems:
        raise PolicyError(tuple(problems))


@app.command("list", cls=with_settings("policies"))
def list_(ctx: typer.Context) -> None:
    """List the built-in policies and those of the folder of settings.

    Examples:
      apportion policies list
      apportion policies list --policies policies/
    """
    from worker.engine import create_catalogue

    print_table(
        ("Name", "Version", "Strategy", "Counter", "Tokens", "Digest"),
        [
            (each.name, each.version, each.strategy, each.counter, str(each.budget_tokens), each.digest)
            for each in create_catalogue(read_settings(ctx))
        ],
    )
