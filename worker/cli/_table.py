"""Rows for a person or for a pipe."""

import sys
from collections.abc import Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on a terminal; in a pipe a line a row, tabs between its cells, and no heading."""
    if not sys.stdout.isatty():
        for row in rows:
            print(*row, sep="\t")  # noqa: T201 - this is what a command prints with
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True  # names are there to be copied
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
