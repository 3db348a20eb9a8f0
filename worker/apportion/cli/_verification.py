"""Runs over recorded events, from files or from topics, for `verify` and `replay`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli import note
from apportion.cli._files import open_events, open_to_read
from apportion.cli._lines import DEAD_LETTERS, DECISIONS, EVENTS, lines_of, watched
from apportion.cli._progress import progress

if TYPE_CHECKING:
    from apportion.core.wire.record import Record
    from apportion.decisions.recompose.ranges import RecordSelection
    from apportion.decisions.recompose.run import Recomposition
    from apportion.decisions.replay.verify import Verification
    from apportion.settings import Settings


@contextmanager
def open_file_run(
    settings: "Settings",
    events: Path,
    decisions: Path,
    dead_letters: Path | None = None,
    *,
    what: str,
    beside_output: bool = False,
) -> "Iterator[tuple[Verification, Iterator[Record], ExitStack]]":
    """Yield a verification of files, its events, and the stack that ends the progress bar named `what`.

    `-` is stdin, but not for dead letters. Raises PolicyError or SettingsError.
    """
    from apportion.decisions.replay.log import LINE_MAX_BYTES
    from apportion.decisions.replay.recorded_files import verification_of

    with ExitStack() as stack:
        source = stack.enter_context(open_events(events))
        logs = [lines_of(stack.enter_context(open_events(decisions)), LINE_MAX_BYTES, DECISIONS)]
        if dead_letters is not None:
            letters = stack.enter_context(open_to_read(dead_letters))
            logs.append(lines_of(letters, LINE_MAX_BYTES, DEAD_LETTERS))
        verification = verification_of(settings, *logs)
        bar = ExitStack()
        lines = lines_of(source, settings.event_max_bytes, EVENTS)
        yield verification, watched(lines, source, what, bar, beside_output=beside_output), bar


@contextmanager
def open_topic_run(
    settings: "Settings",
    selection: "RecordSelection",
    snapshot: Path | None,
    *,
    what: str,
    beside_output: bool = False,
) -> "Iterator[tuple[Recomposition, Callable[[int], None], ExitStack]]":
    """Yield a run over topics, the function for its progress, and the stack that ends the progress bar.

    Sessions start with the rows of the snapshot, if it is given. Errors are as in `open_run` and `Snapshot`.
    """
    from apportion.decisions.recompose.run import open_run
    from apportion.decisions.recompose.snapshot import Snapshot

    with ExitStack() as stack:
        start = None
        if snapshot is not None:
            start = Snapshot(snapshot, stack.enter_context(open_to_read(snapshot)), settings)
        run = stack.enter_context(open_run(settings, selection, start))
        bar = ExitStack()
        advance = bar.enter_context(progress(what, run.total, beside_output=beside_output))
        yield run, advance, bar


def warn_empty() -> None:
    """Warn on stderr that there was nothing to compare, so that the result proves nothing."""
    note("nothing was compared: there is no request and no decision")
