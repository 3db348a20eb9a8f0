"""`apportion count`: the tokens of texts and of providers' bodies."""

from pathlib import Path
from typing import Annotated

import typer

from apportion.cli import CommandError, ExitCode
from apportion.cli._files import naming, open_events
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("models_file", "counters"))
def count(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Texts in UTF-8; - or none: stdin.")
    ] = None,
    *,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Count as this model does.")] = None,
    counter: Annotated[str | None, typer.Option(metavar="NAME", help="Count with this counter.")] = None,
) -> None:
    """Count the tokens of texts, without Kafka: a line for each file, with its tokens and its name.

    The frame that a provider adds to a request is not counted; `apportion models NAME` shows it. Exits with 2
    if the model or the counter is unknown.

    Examples:
      apportion count --model claude-opus-4-7 README.md
      apportion count --counter o200k_base - < prompt.txt
    """
    from apportion.core.errors import EventError
    from apportion.engine.assembly import create_engine

    if (model is None) == (counter is None):
        raise typer.BadParameter("name one of the two", param_hint="--model or --counter")
    engine = create_engine(read_settings(ctx))
    try:
        name = engine.models.row(model, "--model").counter if model is not None else str(counter)
    except EventError as error:
        raise CommandError(error.code, f"{model}: {error.message}", ExitCode.USAGE) from None
    if name not in engine.counters:
        raise typer.BadParameter(f"expected one of {', '.join(engine.counters)}", param_hint="--counter")
    counted = engine.counters[name].count
    for file in files or [Path("-")]:
        with open_events(file) as source, naming(source):
            text = _text(source.read(), file)
        typer.echo(f"{counted(text)}\t{file}")


def _text(value: bytes, file: Path) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file}: is no text in UTF-8", param_hint="FILE") from None
