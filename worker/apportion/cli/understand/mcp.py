"""`apportion mcp`: recorded decisions for models, over the Model Context Protocol."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli._extra import needing_extra
from apportion.cli._files import open_to_read, require_distinct
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(
    cls=with_settings("default_policy", "policies", "fingerprint_secret_file", "models_file", "counters")
)
def mcp(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="The decisions, as JSON lines, or a folder of apportion sink.")
    ],
    *,
    events: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The recorded events: adds replays, and searches for changes."),
    ] = None,
) -> None:
    """Serve recorded decisions to a model, read only, over stdin and stdout.

    Tools find decisions, explain one, and with --events replay them under a change. Results hold ids and
    numbers, but no content and no path. Needs the extra mcp. See docs/mcp.md.

    Examples:
      apportion mcp decisions.jsonl --events events.jsonl
      apportion mcp tables
    """
    settings = read_settings(ctx)
    require_distinct(source, events)
    if events is not None and source.is_dir():
        raise typer.BadParameter("needs a file of decisions as SOURCE", param_hint="--events")
    with needing_extra("mcp"):
        from apportion.decisions.analytics.source import is_tables
        from apportion.decisions.mcp.server import create_server
    if source.is_dir() and not is_tables(source):
        raise typer.BadParameter(f"{source} holds no tables of apportion sink", param_hint="SOURCE")
    for path in (source, events):
        if path is not None and not path.is_dir():
            open_to_read(path).close()
    server = create_server(settings, source, events)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the SDK's reader of stdin would keep Ctrl-C waiting
    server.run()
