"""`apportion topics create` and `check`: creating and checking of a worker's topics."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.kafka.topics import TopicReport

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Create and check the topics.")
_Command = with_settings(
    "brokers",
    "request_timeout_s",
    "app_id",
    "takes_over",
    "topic_prefix",
    "partitions",
    "production",
    "replication_factor",
    "retention_s",
    "audit_retention_s",
)


@app.command(cls=_Command)
def create(ctx: typer.Context) -> None:
    """Create the missing topics, and report existing ones that differ from their plan.

    An existing topic is never changed, so the command can be repeated. Without --production or
    --replication-factor each topic has one copy; a cluster of several brokers does not get that.
    Exits with 1 if a topic differs from its plan, or was refused.

    Examples:
      apportion topics create
      apportion topics create --brokers kafka-1:9092,kafka-2:9092 --production
    """
    from apportion.kafka.topics import create_topics, require_ready

    settings = read_settings(ctx)
    reports = asyncio.run(create_topics(settings))
    _show(reports)
    require_ready(reports)
    if settings.copies == 1:
        typer.echo(
            "one copy of each topic: if its broker loses data, it is lost (--production makes three copies)",
            err=True,
        )


@app.command(cls=_Command)
def check(ctx: typer.Context) -> None:
    """Report missing topics, and existing ones that differ from their plan.

    Changes nothing. Exits with 1 if a topic is missing or differs from its plan, or if another
    app_id writes into the output topics.

    Examples:
      apportion topics check
      apportion topics check --app-id staging --topic-prefix staging.
    """
    from apportion.kafka.output_ownership import output_topics, require_own_outputs
    from apportion.kafka.topics import check_topics, require_ready

    settings = read_settings(ctx)
    reports = asyncio.run(check_topics(settings))
    _show(reports)
    ready = {report.topic for report in reports if report.is_ready}
    if ready.issuperset(output_topics(settings)):  # the check reads all of them
        asyncio.run(require_own_outputs(settings))
    require_ready(reports)


def _show(reports: "Iterable[TopicReport]") -> None:
    print_table(
        ("Topic", "Status", "Why"),
        [
            (report.topic, report.status, report.refusal or "; ".join(map(str, report.differences)))
            for report in reports
        ],
    )
