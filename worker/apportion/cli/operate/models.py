"""`apportion models`: the table of models."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from apportion.cli import CommandError, ExitCode
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.core.models import Model

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("models_file"))
def models(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The name of a model, as a request gives it.")
    ] = None,
    *,
    format_: Annotated[Literal["table", "json"], typer.Option("--format", help="The form.")] = "table",
) -> None:
    """Show the table of models: counter, window, greatest answer and cache of each row, or all of one row.

    The first row with a pattern that matches a name is used. Rows of the setting models_file come before the
    built-in ones. Exits with 2 if no row matches NAME.

    Examples:
      apportion models
      apportion models claude-opus-4-7
      apportion models --format json
    """
    from apportion.core.errors import EventError
    from apportion.engine.assembly import create_models

    table = create_models(read_settings(ctx))
    rows = table.rows
    if name is not None:
        try:
            rows = (table.row(name, "NAME"),)
        except EventError as error:
            raise CommandError(error.code, f"{name}: {error.message}", ExitCode.USAGE) from None
    if format_ == "json":
        from msgspec import json

        for row in rows:
            typer.echo(json.encode(row))
    elif name is None:
        print_table(_COLUMNS, map(_cells, rows))
    else:
        print_table(("Key", "Value"), _described(rows[0]))


_COLUMNS = ("Name", "Provider", "Counter", "Window", "Answer", "Least cached", "TTLs", "Table", "Names")


def _cells(row: "Model") -> tuple[str, ...]:
    cache = row.cache
    return (
        row.name,
        row.provider,
        row.counter,
        _number(row.window_tokens),
        _number(row.answer_tokens),
        "-" if cache is None else _number(cache.least_tokens),
        "-" if cache is None else " ".join(cache.write_permille) or "-",
        row.table,
        " ".join(row.names),
    )


def _number(value: int) -> str:
    return f"{value:,}" if value else "-"


def _described(row: "Model") -> list[tuple[str, str]]:
    """Return the keys and values of a row as in its file, and its digest."""
    from msgspec import to_builtins

    described = []
    for key, value in {**to_builtins(row), "digest": row.digest}.items():
        if isinstance(value, dict):
            described += [(f"{key}.{part}", _shown(own)) for part, own in value.items()]
        elif value not in (None, 0, ""):
            described.append((key, _shown(value)))
    return described


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={own}" for key, own in value.items()) or "none"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
