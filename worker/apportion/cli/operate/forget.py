"""`apportion forget`: removes the state of one session."""

import asyncio
from typing import Annotated

import typer

from apportion.cli import note
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("brokers", "app_id", "partitions", "partitioner"))
def forget(
    ctx: typer.Context,
    session: Annotated[
        str, typer.Argument(metavar="TENANT/SESSION", help="The session; default/… without a tenant.")
    ],
) -> None:
    """Remove a session's row and its pool of artifacts from the changelog.

    All workers of the group must be stopped, because they hold rows in memory. Records of the session in
    the topics stay until their retention: stderr names them. See docs/session.md. Exits with 1 if there is
    no row.

    Examples:
      apportion forget acme/thread-17
    """
    from apportion.shell.kafka.output_ownership import output_topics
    from apportion.shell.stream.state.forgetting import forget

    settings = read_settings(ctx)
    if not all(session.partition("/")):
        raise typer.BadParameter("expected TENANT/SESSION, such as default/s1")
    gone = asyncio.run(forget(settings, session.encode()))
    if not gone.rows:
        note(f"no row of {session!r} in the changelog of {settings.app_id}")
        raise typer.Exit(1)
    topics = (settings.requests_topic, *output_topics(settings), settings.usage_topic)
    typer.echo(f"{session}: {gone.rows:,} row and {gone.artifacts:,} artifacts removed")
    note(
        f"until their retention, records of it stay in {', '.join(topics)}; tables of apportion"
        " sink, snapshots and files keep theirs"
    )
