"""`apportion policies check`, `publish` and `list`: policy files judged and published, and what holds."""

import asyncio
import json
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.core.policies.timeline import Timeline
    from apportion.settings import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check, publish and list policies.")

PolicyFiles = Annotated[
    list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, readable=True)
]


class PoliciesFormat(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"


class FilesRefusedError(Exception):
    """The files were checked, and some are no policies: an answer, and no wrong usage."""

    code = "invalid_policy"


@app.command()
def check(files: PolicyFiles) -> None:
    """Say what is wrong with policy files: every error of every file at once, with file, key and reason.

    Two files with one name and version are wrong, too: check a folder's files together.
    Prints name, version, strategy and digest of the others. Exits with 1 if one is refused.

    Examples:
      apportion policies check policies/*.toml
    """
    from apportion.policies import load_policies

    policies, problems = load_policies(files)
    if policies:
        print_table(
            ("File", "Status", "Name", "Version", "Strategy", "Digest"),
            [
                (file, "ok", each.name, each.version, each.strategy, each.digest)
                for file, each in policies.items()
            ],
        )
    if problems:
        raise FilesRefusedError("\n".join(f"{each.key}: {each.reason}" for each in problems))


@app.command(cls=with_settings("brokers", "app_id", "policies_topic", "policy_settle_s", "policies"))
def publish(ctx: typer.Context, files: PolicyFiles) -> None:
    """Publish policy files to the policies topic, for every worker that reads it, without a restart.

    All or none: exits with 1 if one is refused. A published version never changes, nor does one of a
    policy file or a built-in one: what changes gets a new version. What the topic has already is left.
    Prints from which record time on each counts.

    Examples:
      apportion policies publish policies/*.toml
    """
    from apportion.kafka.publishing import publish_policies
    from apportion.policies import load_policies

    policies, problems = load_policies(files)
    if problems:
        raise FilesRefusedError("\n".join(f"{each.key}: {each.reason}" for each in problems))
    published = asyncio.run(publish_policies(read_settings(ctx), policies))
    print_table(
        ("Name", "Version", "Status", "Counts from", "Digest"),
        [
            (one.policy.name, one.policy.version, one.status, _moment(one.counts_from_ms), one.policy.digest)
            for one in published
        ],
    )


@app.command("list", cls=with_settings("brokers", "app_id", "policies_topic", "policy_settle_s", "policies"))
def list_(
    ctx: typer.Context,
    *,
    output: Annotated[
        PoliciesFormat, typer.Option("--format", help="How to print them.")
    ] = PoliciesFormat.TABLE,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only this machine's: the built-in ones and those of files.")
    ] = False,
) -> None:
    """List the policies that workers go by: built-in ones, those of files, those of the topic.

    Those of files are the group's (app_id), as its workers started with them last; where they are not
    this machine's, stderr says so. Each with the record time from which on it counts: always, where
    there is none.

    Examples:
      apportion policies list
      apportion policies list --offline --policies policies/
      apportion policies list --format json | jq .
    """
    from apportion.assembly import create_timeline
    from apportion.policies import builtin_policies
    from apportion.policies.listing import different, listed

    settings = read_settings(ctx)
    timeline = create_timeline(settings) if offline else _of_the_topic(settings)
    if differing := different(timeline.own, timeline.latest_files or timeline.own):
        told = f"the group {settings.app_id} goes by others than this machine's: {', '.join(differing)}"
        typer.echo(f"apportion: file_policies: {told}", err=True)
    rows = [
        {
            "name": one.policy.name,
            "version": one.policy.version,
            "strategy": one.policy.strategy,
            "source": one.source,
            "effective_from": None if (since := one.policy.effective_from) is None else _in_utc(since),
            "counts_from": None if one.counts_from_ms is None else _moment(one.counts_from_ms),
            "digest": one.policy.digest,
        }
        for one in listed(timeline, builtin_policies())
    ]
    if output is PoliciesFormat.JSON:
        typer.echo(json.dumps(rows, indent=2))
        return
    print_table(
        ("Name", "Version", "Strategy", "Source", "Effective from", "Counts from", "Digest"),
        [[value or "always" for value in row.values()] for row in rows],
    )


def _of_the_topic(settings: "Settings") -> "Timeline":
    from apportion.kafka.publishing import read_timeline

    return asyncio.run(read_timeline(settings))


def _moment(at_ms: int) -> str:
    return _in_utc(datetime.fromtimestamp(at_ms / 1000, UTC))


def _in_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
