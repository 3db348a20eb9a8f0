"""`apportion gateway`: HTTP in front of the topics."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli._files import open_to_write, require_distinct, require_free
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(
    cls=with_settings(
        "brokers",
        "gateway_host",
        "gateway_port",
        "gateway_tokens_file",
        "gateway_wait_s",
        "gateway_in_flight_max",
        "default_policy",
    )
)
def gateway(
    ctx: typer.Context,
    *,
    local: Annotated[
        bool, typer.Option("--local", help="Compose in this process, without Kafka; sessions end with it.")
    ] = False,
    events: Annotated[
        Path | None, typer.Option(help="With --local: write the accepted events to this file.")
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option(help="With --local: write the decisions to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Serve HTTP until SIGTERM or Ctrl-C: POST /v1/compose, and more in /openapi.json.

    A call is published to the topic of requests, and gets the worker's answer. Calls in flight are answered
    within 8 s of SIGTERM. Without gateway_tokens_file, only this machine is served.

    Examples:
      apportion gateway --brokers kafka-1:9092 --gateway-tokens-file tokens.toml --gateway-host 0.0.0.0
      apportion gateway --local --events events.jsonl --decisions decisions.jsonl
    """
    settings = read_settings(ctx)
    if not local:
        if events or decisions:
            raise typer.BadParameter("files need --local")
        raise typer.BadParameter("needs --local")

    from contextlib import nullcontext

    from apportion.gateway.local_backend import LocalBackend
    from apportion.gateway.serving import run_gateway

    require_distinct(events, decisions)
    require_free(events, "--events", force=force)
    require_free(decisions, "--decisions", force=force)
    with ExitStack() as stack:
        events_file = stack.enter_context(open_to_write(events)) if events else None
        decisions_file = stack.enter_context(open_to_write(decisions)) if decisions else None
        backend = LocalBackend(settings, events_file, decisions_file)
        typer.echo("apportion: sessions are in memory and end with this process", err=True)
        run_gateway(settings, nullcontext(backend))
