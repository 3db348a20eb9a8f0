"""The live output of the demo; `view` defines its layout."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from apportion.demo.demo import view
from apportion.demo.demo.tally import DemoTally
from apportion.printable import printable
from apportion.shell.kafka.client import Reply


class Screen:
    """A terminal or a pipe, and the tally of the answers shown on it."""

    def __init__(self, activate: str) -> None:
        """Show nothing yet; `activate` is as in `view.next_steps`."""
        self.tally = DemoTally()
        self._activate = activate
        self._console = Console(highlight=False)
        self._shape = view.layout(self._console.width)
        self._heading: str | None = None
        self._has_context = False

    def tell(self, text: str) -> None:
        """Print a text unchanged."""
        self._console.print(text, markup=False, soft_wrap=True)

    def begin(self, title: str) -> None:
        """Print the title of a part."""
        self._console.print(view.chapter(title))

    def begin_lines(self, title: str) -> None:
        """Print the title of a part, and the heading of its lines, before the next answer."""
        self._heading = title

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show on a terminal, but not in a pipe, that the demo is waiting for something."""
        if self._console.is_terminal:
            with self._console.status(Text(what, "dim")):
                yield
        else:
            yield

    def show(self, answered: Reply, *, held_up: bool = False) -> None:
        """Print an answer. An excerpt of the first composed text comes before its answer."""
        self.tally.add(answered, held_up=held_up)
        if not self._has_context:
            self._show_context(answered.composed)
        if self._heading is not None:
            self.begin(self._heading)
            self._console.print(view.heading(self._shape))
            self._heading = None
        if answered.decision is None:
            assert answered.dead_letter is not None, "an answer is a decision or a dead letter"
            self._console.print(view.refusal(answered.dead_letter.error), soft_wrap=True)
            return
        self._console.print(view.line(answered.decision, answered.latency_s, self._shape))

    def _show_context(self, composed: bytes) -> None:
        context = view.excerpt(composed, self._console.width) if composed else None
        if context is not None:
            self._has_context = True
            self.begin("A context, composed")
            self._console.print(context)

    def show_command(self, arguments: Sequence[str], said: Sequence[str]) -> None:
        """Print a command and its output."""
        self._console.print(Text(f"$ apportion {' '.join(arguments)}", "dim"), soft_wrap=True)
        for line in said:
            self.tell(printable(line))

    def sum_up(self) -> None:
        """Print the totals so far."""
        self._console.print(view.summary(self.tally))

    def end(self) -> None:
        """Print suggestions of next steps."""
        self.tell(f"\n{view.next_steps(self._activate)}")
