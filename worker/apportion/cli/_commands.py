"""The list of commands, and the root of the command line.

The root imports each command on demand, and describes settings and exit codes of all commands.
"""

from collections import UserDict
from importlib import import_module
from inspect import cleandoc
from textwrap import wrap
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from apportion.version import ENGINE_VERSION, __version__

_PANELS = {
    "try_out": ("demo", "workload"),
    "compose": ("compose", "fit", "count", "gateway", "run", "send"),
    "understand": ("verify", "explain", "replay", "report", "calibrate", "mcp", "sink"),
    "operate": ("topics", "policies", "models", "health", "config", "fingerprint", "snapshot", "forget"),
}
COMMANDS = {name: panel for panel, names in _PANELS.items() for name in names}
"""The commands by name with their panel, which is their folder, in the order of `--help`."""
_COLUMNS = 75
"""Width of an example, with room for a backslash on a terminal of 80 columns."""


def _flowing(text: str) -> str:
    """Return a help text for any width: only examples keep the source's line breaks."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(
        _examples(paragraph) if paragraph.startswith("Examples:") else paragraph.replace("\n", " ")
        for paragraph in paragraphs
    )


def _examples(paragraph: str) -> str:
    lines = [
        wrap(line, _COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for line in paragraph.splitlines()
    ]
    return "\n".join(" \\\n".join(line) for line in lines)


class _Commands(UserDict[str, Any]):
    """The commands by name; the file of a command is imported on demand."""

    def __getitem__(self, name: str) -> Any:
        command: Any = get_command(import_module(f"apportion.cli.{COMMANDS[name]}.{name}").app)
        command.name, command.rich_help_panel = name, COMMANDS[name].replace("_", " ").capitalize()
        for shown in (command, *getattr(command, "commands", {}).values()):
            shown.help = _flowing(shown.help or "")
        return command


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": _Commands(COMMANDS)})


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # their stack traces can show content
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:  # noqa: FBT001 - Typer passes a flag's value by position
    if is_given:
        typer.echo(f"apportion {__version__}, engine {ENGINE_VERSION}")
        raise typer.Exit


@app.callback()
def apportion(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compose model context under a hard token ceiling, as a Kafka stream worker.

    Settings: a flag overrides the environment (APPORTION_BROKERS),
    which overrides apportion.toml (brokers), which overrides the default.

    Exit codes: 0 done, 1 failed, 2 wrong usage, settings or policies,
    3 dead letters, 130 interrupted.
    """
