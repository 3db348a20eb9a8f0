"""`apportion send`: publishes events, and optionally waits for the answers."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import CommandError, ExitCode, note
from apportion.cli._files import EventsFile, open_events
from apportion.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from apportion.settings import Settings
    from apportion.shell.kafka.client import Reply

app = typer.Typer(add_completion=False)

_IN_FLIGHT_WAITING = 64


class _Events:
    """The lines that are not blank, and the number of lines read so far."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.taken = 0
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            if line.strip():
                self.taken += 1
                yield line.rstrip(b"\r\n")


@app.command(cls=with_settings("brokers", "partitions", "requests_topic"))
def send(
    ctx: typer.Context,
    file: EventsFile = None,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the answer to each request, and print it.")
    ] = False,
    patience_s: Annotated[
        float,
        typer.Option(
            "--patience-s", min=0.1, help="With --wait: longest time to wait for an answer, in seconds."
        ),
    ] = 30.0,
) -> None:
    """Publish events, one JSON object per line, each with the key of its session.

    With --wait the composed events are printed as they arrive, one JSON object per line. Dead letters are
    reported on stderr, and the exit code is then 3. Artifacts and retractions have no answer.

    Examples:
      apportion send events.jsonl
      apportion workload from-git . | apportion send --wait > composed.jsonl
    """
    import asyncio

    from aiokafka.errors import KafkaError

    from apportion.shell.kafka.client import NotAnEventError

    settings = read_settings(ctx)
    with open_events(file) as source:
        events = _Events(source)
        try:
            refused = asyncio.run(
                _exchange(settings, events, patience_s) if wait else _publish(settings, events)
            )
        except (NotAnEventError, KafkaError) as error:
            message = f"event {events.taken:,}: {error}; those before it are sent, those after it are not"
            raise CommandError("not_sent", message) from None
    if not wait:
        typer.echo(f"sent {events.taken:,} events to {settings.requests_topic}", err=True)
    if refused:
        raise CommandError("dead_letters", f"{refused:,} events were refused", ExitCode.DEAD_LETTERS)


async def _publish(settings: "Settings", events: _Events) -> int:
    from apportion.shell.kafka.client import open_publisher

    async with open_publisher(settings) as publisher:
        for event in events:
            await publisher.send(event)
    return 0


async def _exchange(settings: "Settings", events: _Events, patience_s: float) -> int:
    """Return the number of refused events."""
    from apportion.shell.kafka.client import open_client

    refused = 0
    async with open_client(settings) as client:
        async for answered in client.exchange(events, _IN_FLIGHT_WAITING, patience_s):
            refused += _print_reply(answered)
    return refused


def _print_reply(answered: "Reply") -> bool:
    """Print an answer, and return whether it is a dead letter."""
    from apportion.printable import printable

    if answered.dead_letter is None:
        sys.stdout.buffer.write(answered.composed + b"\n")
        sys.stdout.buffer.flush()
        return False
    error = answered.dead_letter.error
    where = f"event {answered.index + 1}"
    note(f"{where}: {printable(f'{error.code}: {error.message} (at {error.pointer})')}")
    return True
