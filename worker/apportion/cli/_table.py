"""Tables and explanations for a terminal or for a pipe."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_PIPE_COLUMNS = 140


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on a terminal; in a pipe, a line per row, with tabs between cells, without heading."""
    if not sys.stdout.isatty():
        for row in rows:
            print(*row, sep="\t")  # noqa: T201 - commands print with this function
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.columns[0].no_wrap = True  # names can be copied
    for column in table.columns[1:-1]:
        column.overflow = "fold"  # values are not cut; the last column holds prose or a digest
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def print_shown(shown: "RenderableType", *, stderr: bool = False) -> None:
    """Print an explanation; in a pipe, in lines of a fixed width."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    console.print(shown)
