"""The command `apportion`: one file a command.

Decides how commands are found, how an error looks and which exit code it has. What a command does is
not decided here, nor in its file: that reads flags, calls a room and prints.

To add the command `NAME`, write `worker/cli/NAME.py` with a Typer `app`, and put its name into
`COMMANDS`. It imports the rooms inside its functions, for `--help` and completion import every file here
(`tests/unit/test_cli_frame.py` holds it to that). `config.py` is a command, `topics.py` a group of two.
Files with an underscore are what commands share.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from worker import ENGINE_VERSION

COMMANDS = ("demo", "run", "send", "compose", "workload", "policies", "topics", "config")
"""In the order of `--help`."""


class ExitCode(IntEnum):
    """What the shell sees; a typed error may name its own as `exit_code`, and is a failure otherwise."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    DEAD_LETTERS = 3


class _Commands(Mapping[str, Any]):
    """Each command by name, its file imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        command = get_command(import_module(f"worker.cli.{name}").app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": _Commands()})


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what it adds to a stack trace may hold content
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - Typer passes a flag's value by position
    if asked:
        typer.echo(f"apportion {ENGINE_VERSION}")
        raise typer.Exit


@app.callback()
def apportion(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compose model context under a hard token ceiling, as a Kafka stream worker.

    Settings: a flag wins over the environment (APPORTION_BROKERS),
    that over apportion.toml (brokers), that over the default.

    Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 dead letters.
    """


def main() -> None:
    """Run the command line; a typed error becomes one line a problem on stderr, and an exit code."""
    # with a handler of their own, the client's lines reach stderr only if a command configures logging
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    try:
        app(prog_name="apportion")
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        for line in str(error).splitlines():
            text = line if line.startswith(code) else f"{code}: {line}"
            typer.echo(f"apportion: {text}", err=True)
        sys.exit(getattr(error, "exit_code", ExitCode.FAILURE))
