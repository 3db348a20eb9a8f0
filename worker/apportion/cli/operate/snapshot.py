"""`apportion snapshot`: a file with the current rows of all sessions."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("brokers", "app_id", "partitions", "topic_prefix"))
def snapshot(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the sessions' rows from the changelog into a file, from which a verification can start.

    Workers can run meanwhile; nothing is written to Kafka. The file holds all data of sessions, such as
    contents and paths of pooled artifacts: protect it like the topics. See docs/verify.md.

    Examples:
      apportion snapshot rows.jsonl
      apportion verify --from-topics --snapshot rows.jsonl
    """
    from apportion.decisions.recompose.ranges import require_topics
    from apportion.decisions.recompose.snapshot import write_snapshot
    from apportion.shell.kafka.topics import changelog_topic

    settings = read_settings(ctx)
    asyncio.run(require_topics(settings, (settings.requests_topic, changelog_topic(settings))))
    with progress("reading rows", settings.partitions) as advance:
        kept = write_snapshot(settings, file, advance, force=force)
    rows = sum(partition.rows for partition in kept)
    events = sum(partition.offset for partition in kept)
    typer.echo(f"{rows:,} rows of {len(kept)} partitions, from {events:,} events on")
