"""`apportion send`: publishes events, and waits for what comes back if asked."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli._files import EventsFile, open_events
from worker.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.settings import Settings
    from worker.stream.client import Answered

app = typer.Typer(add_completion=False)

_IN_FLIGHT_WAITING = 64


@app.command(cls=with_settings("brokers", "partitions", "requests_topic"))
def send(
    ctx: typer.Context,
    file: EventsFile = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Print what comes back for each request.")] = False,
    patience_s: Annotated[
        float, typer.Option("--patience-s", min=0.1, help="With --wait: how long to wait for an answer.")
    ] = 30.0,
) -> None:
    """Publish events, one JSON a line, each under its session's key.

    With --wait the composed events are printed as they come, one JSON a line; dead letters
    are told on stderr, and the exit code is then 3. Artifacts and retractions answer nothing.

    Examples:
      apportion send events.jsonl
      apportion workload from-git . | apportion send --wait > composed.jsonl
    """
    import asyncio

    settings = read_settings(ctx)
    with open_events(file) as source:
        lines = (line for line in source if line.strip())
        if not wait:
            sent = asyncio.run(_publish(settings, lines))
            typer.echo(f"sent {sent:,} events to {settings.requests_topic}", err=True)
            return
        refused = asyncio.run(_exchange(settings, lines, patience_s))
    if refused:
        from worker.cli import ExitCode

        typer.echo(f"apportion: dead_letters: {refused:,} events were refused", err=True)
        raise typer.Exit(ExitCode.DEAD_LETTERS)


async def _publish(settings: "Settings", lines: "Iterator[bytes]") -> int:
    from worker.stream.client import open_client

    count = 0
    async with open_client(settings) as client:
        for line in lines:
            await client.send(count, line.rstrip(b"\r\n"))
            count += 1
    return count


async def _exchange(settings: "Settings", lines: "Iterator[bytes]", patience_s: float) -> int:
    from worker.stream.client import open_client

    refused = 0
    async with open_client(settings) as client:
        async for answered in client.exchange(map(bytes.strip, lines), _IN_FLIGHT_WAITING, patience_s):
            refused += _tell(answered)
    return refused


def _tell(answered: "Answered") -> bool:
    """Print an answer; return whether it was a dead letter."""
    from worker.printable import printable

    if answered.dead_letter is None:
        sys.stdout.buffer.write(answered.composed + b"\n")
        sys.stdout.buffer.flush()
        return False
    error = answered.dead_letter.error
    where = f"event {answered.index + 1}"
    typer.echo(
        f"apportion: {where}: {printable(f'{error.code}: {error.message} (at {error.pointer})')}", err=True
    )
    return True
