"""`apportion demo`: everything at once, for a first look."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(add_completion=False)

REQUESTS = 200


@app.command(cls=with_settings("default_policy", "policies"))
def demo(
    ctx: typer.Context,
    *,
    repo: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Make the sessions from this git repository's history."),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many requests, the newest.")] = REQUESTS,
    keep: Annotated[bool, typer.Option("--keep", help="Stay afterwards, until Ctrl-C.")] = False,
) -> None:
    """See real sessions composed: an embedded broker, the worker, and a workload.

    Without --repo the sessions are those of Apportion's own history, which the package ships.
    Each line is a decision as it comes: who asked, what was used of the limit, what was
    chosen and left out, mainly why, and how long the answer took. A summary ends it.
    Needs the extra `demo` (the broker's wheel), and leaves nothing behind.

    Examples:
      apportion demo
      apportion demo --repo ~/code/project --requests 500
      apportion demo --keep
    """
    import asyncio
    from time import perf_counter

    from rich.console import Console

    from worker.demo import Demo, Tally, run_demo, view
    from worker.stream.client import Answered

    settings = read_settings(ctx)
    console = Console(highlight=False)
    console.width = view.plain_width(console)
    shape = view.layout(console)
    tally = Tally()
    begun_s: list[float] = []

    def show(answered: Answered) -> None:
        if not begun_s:
            begun_s.append(perf_counter() - answered.latency_s)
            if answered.composed:
                console.print(view.excerpt(answered.composed))
            console.print(view.heading(shape))
        tally.add(answered)
        console.print(view.line(answered, shape))

    try:
        asyncio.run(run_demo(Demo(settings, _events(repo, requests), console.print, show), stay=keep))
    except KeyboardInterrupt:
        console.print("Stopped.")
    if begun_s:
        console.print()
        console.print(view.summary(tally.summary(), perf_counter() - begun_s[0]))
        console.print()
        console.print(view.NEXT, markup=False, soft_wrap=True)


def _events(repo: Path | None, requests: int) -> "Iterator[bytes]":
    from itertools import islice

    from worker.workload.recording import recorded
    from worker.workload.requests import from_git

    return islice(recorded(), requests) if repo is None else from_git(repo, max_requests=requests)
