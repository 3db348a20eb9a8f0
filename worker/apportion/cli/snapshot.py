"""`apportion snapshot`: the sessions' rows as they are now, in a file."""

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
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write the sessions' rows from the changelog into a file, where a verification may start.

    Workers go on meanwhile; nothing is written to Kafka. The file holds what sessions hold, contents
    and paths of pooled artifacts among them: keep it as you keep the topics. docs/verify.md says more.

    Examples:
      apportion snapshot rows.jsonl
      apportion verify --from-topics --snapshot rows.jsonl
    """
    from apportion.kafka.topics import changelog_topic
    from apportion.recompose.ranges import require_topics
    from apportion.recompose.snapshot import write_snapshot

    settings = read_settings(ctx)
    asyncio.run(require_topics(settings, (settings.requests_topic, changelog_topic(settings))))
    with progress("reading rows", settings.partitions) as advance:
        kept = write_snapshot(settings, file, advance, force=force)
    rows = sum(one.rows for one in kept)
    events = sum(one.offset for one in kept)
    typer.echo(f"{rows:,} rows of {len(kept)} partitions, from {events:,} events on")
