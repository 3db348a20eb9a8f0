"""`apportion policies check`, `publish` and `list`: checking, publishing and listing of policies."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from apportion.cli import note
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.core.policies.timeline import Timeline
    from apportion.settings import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check, publish and list policies.")

PolicyFiles = Annotated[list[Path], typer.Argument(metavar="FILE...")]


@app.command(cls=with_settings("models_file"))
def check(ctx: typer.Context, files: PolicyFiles) -> None:
    """Check policy files: print every error of every file, with file, key and reason.

    Two files with the same name and version are an error, so check the files of a folder together.
    Prints name, version, strategy and digest of valid files. Exits with 2 if a file is refused.

    Examples:
      apportion policies check policies/*.toml
    """
    from apportion.core.strategy_api.policy import PolicyError
    from apportion.engine.assembly import create_models
    from apportion.engine.policies import load_policies

    policies, problems = load_policies(files, create_models(read_settings(ctx)))
    if policies:
        print_table(
            ("File", "Status", "Name", "Version", "Strategy", "Digest"),
            [
                (file, "ok", policy.name, policy.version, policy.strategy, policy.digest)
                for file, policy in policies.items()
            ],
        )
    if problems:
        raise PolicyError(problems)


@app.command(
    cls=with_settings("brokers", "app_id", "policies_topic", "policy_settle_s", "policies", "models_file")
)
def publish(ctx: typer.Context, files: PolicyFiles) -> None:
    """Publish policy files to the policies topic, for every worker that reads it, without a restart.

    If a file is refused, none is published, and the exit code is 2. A version never changes, whether it is
    published, in a policy file or built-in: give a changed policy a new version. Policies that the topic has
    already are left. Prints the record time from which each policy applies.

    Examples:
      apportion policies publish policies/*.toml
    """
    from apportion.core.strategy_api.policy import PolicyError
    from apportion.engine.assembly import create_models
    from apportion.engine.policies import load_policies
    from apportion.shell.kafka.publishing import publish_policies

    settings = read_settings(ctx)
    policies, problems = load_policies(files, create_models(settings))
    if problems:
        raise PolicyError(problems)
    published = asyncio.run(publish_policies(settings, policies))
    print_table(
        ("Name", "Version", "Status", "Counts from", "Digest"),
        [
            (row.policy.name, row.policy.version, row.status, _moment(row.counts_from_ms), row.policy.digest)
            for row in published
        ],
    )


@app.command("list", cls=with_settings("brokers", "app_id", "policies_topic", "policy_settle_s", "policies"))
def list_(
    ctx: typer.Context,
    *,
    output: Annotated[
        Literal["table", "json"], typer.Option("--format", help="Format of the list.")
    ] = "table",
    offline: Annotated[
        bool,
        typer.Option("--offline", help="List only the built-in policies and those of this machine's files."),
    ] = False,
) -> None:
    """List the policies that workers use: built-in policies, policies of files and policies of the topic.

    The policies of files are those with which the workers of the group (app_id) last started. If this
    machine's files differ, stderr says so. Each policy has the record time from which it applies; without
    one, it always applies.

    Examples:
      apportion policies list
      apportion policies list --offline --policies policies/
      apportion policies list --format json | jq .
    """
    from apportion.engine.assembly import create_timeline
    from apportion.engine.policies import builtin_policies
    from apportion.engine.policies.listing import different, listed

    settings = read_settings(ctx)
    timeline = create_timeline(settings) if offline else _read_timeline(settings)
    if differing := different(timeline.own, timeline.latest_files or timeline.own):
        message = f"the group {settings.app_id} uses other files than this machine: {', '.join(differing)}"
        note(f"file_policies: {message}")
    rows = [
        {
            "name": entry.policy.name,
            "version": entry.policy.version,
            "strategy": entry.policy.strategy,
            "source": entry.source,
            "effective_from": None if (since := entry.policy.effective_from) is None else _in_utc(since),
            "counts_from": None if entry.counts_from_ms is None else _moment(entry.counts_from_ms),
            "digest": entry.policy.digest,
        }
        for entry in listed(timeline, builtin_policies())
    ]
    if output == "json":
        typer.echo(json.dumps(rows, indent=2))
        return
    print_table(
        ("Name", "Version", "Strategy", "Source", "Effective from", "Counts from", "Digest"),
        [[value or "always" for value in row.values()] for row in rows],
    )


def _read_timeline(settings: "Settings") -> "Timeline":
    from apportion.shell.kafka.publishing import read_timeline

    return asyncio.run(read_timeline(settings))


def _moment(at_ms: int) -> str:
    return _in_utc(datetime.fromtimestamp(at_ms / 1000, UTC))


def _in_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
