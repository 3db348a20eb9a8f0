"""A progress bar for long work, on stderr, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    what: str, total: int | None, *, in_bytes: bool = False, beside_output: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, and yield the function to call with the number done so far.

    There is no bar if stderr is not a terminal. With `beside_output`, there is none either if stdout is a
    terminal, because the output itself shows the progress. `total` is None if it is unknown.
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
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
