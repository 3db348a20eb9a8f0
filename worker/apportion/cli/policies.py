"""`apportion policies check` and `list`: policy files judged, and the policies that are known."""

from pathlib import Path
from typing import Annotated

import typer

from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check and list policies.")


class FilesRefusedError(Exception):
    """The files were checked, and some are no policies: an answer, and no wrong usage."""

    code = "invalid_policy"


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, readable=True)
    ],
) -> None:
    """Say what is wrong with policy files: every error of every file at once, with file, key and reason.

    Two files with one name and version are wrong, too: check a folder's files together.
    Prints name, version, strategy and digest of the others. Exits with 1 if one is refused.

    Examples:
      apportion policies check policies/*.toml
    """
    from apportion.policies import load_policies

    policies, problems = load_policies(files)
    if policies:
        print_table(
            ("File", "Status", "Name", "Version", "Strategy", "Digest"),
            [
                (file, "ok", each.name, each.version, each.strategy, each.digest)
                for file, each in policies.items()
            ],
        )
    if problems:
        raise FilesRefusedError("\n".join(f"{each.key}: {each.reason}" for each in problems))


@app.command("list", cls=with_settings("policies"))
def list_(ctx: typer.Context) -> None:
    """List the built-in policies and those of the folder of settings.

    Examples:
      apportion policies list
      apportion policies list --policies policies/
    """
    from apportion.assembly import create_catalogue

    print_table(
        ("Name", "Version", "Strategy", "Counter", "Tokens", "Digest"),
        [
            (each.name, each.version, each.strategy, each.counter, str(each.budget_tokens), each.digest)
            for each in create_catalogue(read_settings(ctx))
        ],
    )
