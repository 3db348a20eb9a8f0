"""`apportion gateway`: HTTP in front of the topics."""

from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import note
from apportion.cli._files import require_distinct, require_free
from apportion.cli._settings import read_settings, with_settings, without_kafka

if TYPE_CHECKING:
    from apportion.doors.gateway.backend import Backend

app = typer.Typer(add_completion=False)


@app.command(
    cls=with_settings(
        "brokers",
        "gateway_host",
        "gateway_port",
        "gateway_tokens_file",
        "gateway_wait_s",
        "gateway_in_flight_max",
        "gateway_bodies_max_bytes",
        "gateway_fit_max_bytes",
        "default_policy",
        "tracing",
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
    within 8 s of SIGTERM. Without gateway_tokens_file, only this machine is served. With --local, an event
    may have 16 MiB, and then takes up to 1.1 GB of memory; --event-max-bytes sets another bound.

    Examples:
      apportion gateway --brokers kafka-1:9092 --gateway-tokens-file tokens.toml --gateway-host 0.0.0.0
      apportion gateway --local --events events.jsonl --decisions decisions.jsonl
    """
    from apportion.doors.gateway.serving import run_gateway

    if not local and (events or decisions):
        raise typer.BadParameter("files need --local")
    require_distinct(events, decisions)
    require_free(events, "--events", force=force)
    require_free(decisions, "--decisions", force=force)
    settings = read_settings(ctx)
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) if path else None for path in (events, decisions)]
        if local:
            settings = without_kafka(settings)
            from apportion.doors.gateway.local_backend import LocalBackend

            backend: AbstractAsyncContextManager[Backend] = nullcontext(LocalBackend(settings, *files))
            note("sessions are in memory and end with this process")
        else:
            from apportion.doors.gateway.kafka_backend import open_kafka_backend

            backend = open_kafka_backend(settings)
        run_gateway(settings, backend)
