"""A progress bar for long work: on stderr, and only where somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    what: str, total: int | None, *, in_bytes: bool = False, beside_output: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show how much is done: call what this gives with the number done so far. None: no total is known.

    Shows nothing in a pipe; nor `beside_output` where stdout is a terminal, for that shows it.
    """
    if not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)
