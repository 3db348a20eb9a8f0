"""`apportion config`: the settings that every other command would use."""

import json
from typing import Annotated, Any

import typer

from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings())
def config(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, by name of the setting.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print only problems; also read the files that the settings name.")
    ] = False,
) -> None:
    """Show every setting: its value, the source of the value, and its meaning.

    Secrets are masked. In a pipe: name, value, origin and help, separated by tabs. With --check only problems
    are printed, including problems of secrets, policies and certificates: everything that would end a worker
    before it connects to a broker.

    Examples:
      apportion config
      APPORTION_PARTITIONS=8 apportion config --app-id staging
      apportion config --json | jq -r .brokers.origin
      apportion config --check && apportion run
    """
    from apportion.settings import NAMES, help_texts

    settings = read_settings(ctx)
    if check:
        from apportion.engine.assembly import create_engine, create_timeline

        create_engine(settings)
        create_timeline(settings)
        if settings.security_protocol.has_tls or settings.security_protocol.has_sasl:
            from apportion.shell.kafka.connection import security_arguments

            security_arguments(settings)
        return
    values: dict[str, Any] = settings.model_dump(mode="json")
    help_of = {name: " ".join(text.split()) for name, text in help_texts().items()}
    if as_json:
        shown = {
            name: {"value": values[name], "origin": settings.origin(name), "help": help_of[name]}
            for name in NAMES
        }
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    print_table(
        ("Setting", "Value", "From", "What it does"),
        [(name, _text(values[name]), settings.origin(name), help_of[name]) for name in NAMES],
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, list) else str(value)
