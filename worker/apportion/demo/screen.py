"""Where the demo is shown, as it happens. Decides what is shown when; how it looks is the view's."""

from time import perf_counter

from rich.console import Console

from apportion.demo import view
from apportion.demo.tally import Tally
from apportion.stream.client import Reply


class Screen:
    """A terminal or a pipe, and the tally of what was shown on it."""

    def __init__(self, activate: str) -> None:
        """Show nothing yet; `activate` is the command that puts ours on the path, or empty."""
        self.tally = Tally()
        self._activate = activate
        self._console = Console(highlight=False)
        self._console.width = view.columns(self._console)
        self._shape = view.layout(self._console.width)
        self._has_context = self._has_heading = False

    def tell(self, text: str) -> None:
        """Print a text as it stands."""
        self._console.print(text, markup=False, soft_wrap=True)

    def show(self, answered: Reply) -> None:
        """Print one answer; before the first one, the context that it brings."""
        self.tally.add(answered, perf_counter())
        if answered.decision is None:
            assert answered.dead_letter is not None, "what is not decided is refused"
            self._console.print(view.refusal(answered.dead_letter.error), soft_wrap=True)
            return
        context = None if self._has_context else view.excerpt(answered.composed)
        if context is not None:
            self._has_context = True
            self._console.print(context)
        if not self._has_heading:
            self._has_heading = True
            self._console.print(view.heading(self._shape))
        self._console.print(view.line(answered.decision, answered.latency_s, self._shape))

    def sum_up(self) -> None:
        """Print what the answers so far add up to, if there are any, and what to try next."""
        total = self.tally.summary()
        if total.decisions or total.dead_letters:
            self._console.print()
            self._console.print(view.summary(total))
            self._console.print()
            self.tell(view.next_steps(self._activate))
