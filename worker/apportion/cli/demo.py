"""`apportion demo`: everything at once, for a first look."""

import shutil
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli import ExitCode
from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)

REQUESTS = 200


@app.command(cls=with_settings("default_policy", "policies"))
def demo(
    ctx: typer.Context,
    *,
    repo: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            exists=True,
            file_okay=False,
            help="Make the sessions from this git repository's history.",
        ),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many requests, the newest.")] = REQUESTS,
    keep: Annotated[bool, typer.Option("--keep", help="Stay afterwards, until Ctrl-C.")] = False,
) -> None:
    """See real sessions composed: an embedded broker, the worker, and a workload.

    Without --repo the sessions are those of Apportion's own history, which the package ships.
    Each line is a decision as it comes: who asked, what was used of the limit, what was
    chosen and left out, mainly why, and how long the answer took. A summary ends it.
    The policy is `agent`, unless a setting names another as the default.
    Needs the extra `demo` (the broker's wheel), and leaves nothing behind.

    Examples:
      apportion demo
      apportion demo --repo ~/code/project --requests 500
      apportion demo --keep
    """
    import asyncio

    from apportion.demo import POLICY, Screen, require_demo_policy, run_demo
    from apportion.settings import DEFAULT

    settings = read_settings(ctx)
    if settings.origin("default_policy") == DEFAULT:
        settings = read_settings(ctx, default_policy=POLICY)
    require_demo_policy(settings)
    screen = Screen(_activate())
    if repo is not None:
        screen.tell(f"Reading the history of {repo} …")
    events = _last_recorded(requests) if repo is None else _last_of(repo, requests)
    try:
        asyncio.run(run_demo(settings, events, screen, stay=keep))
    except KeyboardInterrupt:
        screen.tell("Stopped.")
        raise typer.Exit(ExitCode.OK if keep else ExitCode.INTERRUPTED) from None
    if refused := screen.tally.summary().dead_letters:
        typer.echo(f"apportion: dead_letters: {refused:,} events were refused", err=True)
        raise typer.Exit(ExitCode.DEAD_LETTERS)


def _last_recorded(count: int) -> Iterable[bytes]:
    from apportion.workload.recording import recorded

    return deque(recorded(), maxlen=count)


def _last_of(repo: Path, count: int) -> Iterable[bytes]:
    """Make the events beforehand: what is wrong is told at once, and making them takes no answer's time."""
    from apportion.workload.requests import from_git

    events: list[bytes] = []
    with progress("making requests", count) as advance:
        for event in from_git(repo, max_requests=count):
            events.append(event)
            advance(len(events))
    return events


def _activate() -> str:
    """Return the command that puts ours on the path of a shell, or nothing where it is there."""
    script = Path(sys.executable).with_name("activate")
    if shutil.which("apportion") or not script.exists():
        return ""
    here = Path.cwd()
    return f". {script.relative_to(here) if script.is_relative_to(here) else script}"
