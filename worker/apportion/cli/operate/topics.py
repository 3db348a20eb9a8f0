"""`apportion topics create`, `check` and `register`: a worker's topics, and the schemas of their values."""

import asyncio
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import CommandError
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.contracts.registry.subjects import SubjectReport
    from apportion.shell.kafka.topics import TopicReport

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Create and check the topics, and register their schemas.",
)
_Registry = Annotated[
    str | None, typer.Option("--registry", metavar="URL", help="Schema registry; see schema_registry.")
]
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
_FEW_BROKERS = re.compile(r"only ([0-9]+) broker|available brokers: ([0-9]+)")
_REGISTRY_SETTINGS = (
    "schema_registry_cafile",
    "schema_registry_username",
    "schema_registry_password_file",
    "request_timeout_s",
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
    from apportion.shell.kafka.topics import create_topics, require_ready

    settings = read_settings(ctx)
    reports = asyncio.run(create_topics(settings))
    _require_brokers(reports, settings.copies)
    _show(reports)
    require_ready(reports)
    if settings.copies == 1:
        typer.echo(
            "one copy of each topic: if its broker loses data, it is lost (--production makes three copies)",
            err=True,
        )


@app.command(cls=_Command)
def check(ctx: typer.Context, *, registry: _Registry = None) -> None:
    """Report missing topics, and existing ones that differ from their plan.

    With a schema registry, also reports schemas that are missing there or differ. Changes nothing. Exits
    with 1 if a topic or schema is missing or differs from its plan, or if another app_id writes into the
    output topics.

    Examples:
      apportion topics check
      apportion topics check --app-id staging --topic-prefix staging.
      apportion topics check --registry https://registry:8081
    """
    from apportion.contracts.registry.subjects import check_subjects, require_subjects
    from apportion.shell.kafka.output_ownership import output_topics, require_own_outputs
    from apportion.shell.kafka.topics import check_topics, require_ready

    settings = read_settings(ctx, schema_registry=registry)
    reports = asyncio.run(check_topics(settings))
    _show(reports)
    ready = {report.topic for report in reports if report.is_ready}
    if ready.issuperset(output_topics(settings)):  # the check reads all of them
        asyncio.run(require_own_outputs(settings))
    subjects = asyncio.run(check_subjects(settings)) if settings.schema_registry else ()
    if subjects:
        _show_subjects(subjects)
    require_ready(reports)
    require_subjects(subjects)


@app.command(cls=with_settings(*_REGISTRY_SETTINGS, "topic_prefix"))
def register(ctx: typer.Context, *, registry: _Registry = None) -> None:
    """Register the JSON Schemas of all topics in a schema registry with Confluent's API.

    Each topic's values are one subject, TOPIC-value. The command can be repeated: a schema that is
    registered stays, and a compatibility that is set is never changed. Run it before you upgrade workers
    that have schema_registry. Exits with 1 if the registry refuses a schema, or a compatibility differs.

    Examples:
      apportion topics register --registry https://registry:8081
      apportion topics register --registry http://localhost:8080/apis/ccompat/v7
    """
    from apportion.contracts.registry.subjects import register_subjects, require_subjects

    settings = read_settings(ctx, schema_registry=registry)
    if settings.schema_registry is None:
        raise typer.BadParameter("name the schema registry: --registry URL")
    reports = asyncio.run(register_subjects(settings))
    _show_subjects(reports)
    require_subjects(reports)


def _require_brokers(reports: "Iterable[TopicReport]", copies: int) -> None:
    """Raise TooFewBrokersError if there are more copies than brokers, instead of an error for each topic."""
    for report in reports:
        if found := _FEW_BROKERS.search(report.refusal):
            message = (
                f"{copies} copies need {copies} brokers, and the cluster has {found[1] or found[2]}; leave "
                "out --production, or lower --replication-factor"
            )
            raise CommandError("too_few_brokers", message)


def _show(reports: "Iterable[TopicReport]") -> None:
    print_table(
        ("Topic", "Status", "Why"),
        [
            (report.topic, report.status, report.refusal or "; ".join(map(str, report.differences)))
            for report in reports
        ],
    )


def _show_subjects(reports: "Iterable[SubjectReport]") -> None:
    print_table(
        ("Subject", "Status", "Why"), [(report.subject, report.status, report.why) for report in reports]
    )
