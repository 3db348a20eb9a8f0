"""`apportion demo`: broker, worker, workload and report in one command, for a first look."""

import shutil
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli import CommandError, ExitCode
from apportion.cli._extra import needing_extra
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
        int, typer.Option(min=1, help="Number of requests, from the latest part of the history.")
    ] = REQUESTS,
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="The report to write; an existing file is overwritten.")
    ] = _REPORT,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep broker and worker running until Ctrl-C.")
    ] = False,
) -> None:
    """Show real sessions being composed, with an embedded broker, the worker, and a workload.

    Without --repo the requests are from Apportion's own history, which the package ships. Each line is a
    decision: its session, the tokens used of the limit, the candidates selected and left out, the main
    reason, and the time of the answer. Halfway the worker is killed. At the end all decisions are verified,
    and a report is written. The policy is `agent`, unless a setting names another default. Needs the extra
    `demo` (the broker's wheel). Leaves nothing behind but the report.

    Examples:
      apportion demo
      apportion demo --repo ~/code/project --requests 100
      apportion demo --keep
    """
    import asyncio

    from apportion.demo.demo import POLICY, Screen, require_demo_policy, run_demo, story_of
    from apportion.demo.workload.recording import recorded
    from apportion.settings import DEFAULT

    settings = read_settings(ctx)
    if settings.origin("default_policy") == DEFAULT:
        settings = read_settings(ctx, default_policy=POLICY)
    require_demo_policy(settings)
    require_place(report, "--report", force=True)
    with needing_extra("analytics"):
        import apportion.decisions.analytics.source  # noqa: F401 - a missing extra is reported before anything starts
    screen = Screen(_activate())
    if repo is not None:
        screen.tell(f"Reading the history of {repo} …")
    story = story_of(deque(recorded(), maxlen=requests) if repo is None else _last_of(repo, requests))
    running = run_demo(settings, story, screen, report.absolute(), recorded=repo is None, stay=keep)
    try:
        asyncio.run(running)
    except KeyboardInterrupt:
        screen.tell("Stopped.")
        raise typer.Exit(ExitCode.OK if keep else ExitCode.INTERRUPTED) from None
    if (refused := screen.tally.dead_letters) > story.refused:
        raise CommandError("dead_letters", f"{refused:,} events were refused", ExitCode.DEAD_LETTERS)


def _last_of(repo: Path, count: int) -> Iterable[bytes]:
    """Make the events in advance: problems appear at once, and making events delays no answer."""
    from apportion.demo.workload.requests import from_git

    events: list[bytes] = []
    with progress("making requests", count) as advance:
        for event in from_git(repo, max_requests=count):
            events.append(event)
            advance(len(events))
    return events


def _activate() -> str:
    """Return the shell command that puts `apportion` on the path, or nothing if it is there."""
    script = Path(sys.executable).with_name("activate")
    if shutil.which("apportion") or not script.exists():
        return ""
    here = Path.cwd()
    return f". {script.relative_to(here) if script.is_relative_to(here) else script}"
