"""`apportion health`: the health of the worker on this machine."""

from typing import Annotated

import typer

from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("health_host", "health_port"))
def health(
    ctx: typer.Context,
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Check that it answers events, not only that it is alive.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Longest time for its answer, in seconds.")
    ] = 5.0,
) -> None:
    """Check that the worker on this machine makes progress: exit code 0 if so, else 1.

    For health checks of containers. It uses the same settings as the worker.

    Examples:
      apportion health
      apportion health --ready --timeout 2
    """
    from apportion.shell.operations.asking import UnhealthyError, ask

    settings = read_settings(ctx)
    if not settings.health_port:
        raise UnhealthyError("health_port is 0, so the worker serves no health endpoints")
    ask(settings.health_host, settings.health_port, "/readyz" if ready else "/livez", timeout_s)
    typer.echo("ok")
