"""Recorded events composed again, from files or from topics: what `verify`, `replay` and `explain` share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from apportion.cli._files import open_events, open_to_read
from apportion.cli._lines import DEAD_LETTERS, DECISIONS, EVENTS, lines_of, watched
from apportion.cli._progress import progress
from apportion.cli._topics import recomposition_of

if TYPE_CHECKING:
    from apportion.core.wire.record import Record
    from apportion.recompose.ranges import RecordSelection
    from apportion.recompose.run import Recomposition
    from apportion.replay.verify import Verification
    from apportion.settings import Settings


class FileRun(NamedTuple):
    """A verification of files, and its events; the progress bar ends with `bar`."""

    verification: "Verification"
    events: "Iterator[Record]"
    bar: ExitStack


class TopicRun(NamedTuple):
    """A run over topics, and what shows how far it is; the progress bar ends with `bar`."""

    recomposition: "Recomposition"
    advance: Callable[[int], None]
    bar: ExitStack


@contextmanager
def open_file_run(
    settings: "Settings",
    events: Path,
    decisions: Path,
    dead_letters: Path | None = None,
    *,
    what: str,
    beside_output: bool = False,
) -> Iterator[FileRun]:
    """Open the files; `-` is stdin, but not for dead letters. The progress bar is named `what`.

    Raises:
        PolicyError, SettingsError: the policies or secrets that the settings name are wrong.
    """
    from apportion.replay.log import LINE_MAX_BYTES
    from apportion.replay.recorded_files import verification_of

    with ExitStack() as stack:
        source = stack.enter_context(open_events(events))
        logs = [lines_of(stack.enter_context(open_events(decisions)), LINE_MAX_BYTES, DECISIONS)]
        if dead_letters is not None:
            letters = stack.enter_context(open_to_read(dead_letters))
            logs.append(lines_of(letters, LINE_MAX_BYTES, DEAD_LETTERS))
        verification = verification_of(settings, *logs)
        bar = ExitStack()
        lines = lines_of(source, settings.event_max_bytes, EVENTS)
        yield FileRun(verification, watched(lines, source, what, bar, beside_output=beside_output), bar)


@contextmanager
def open_topic_run(
    settings: "Settings",
    selection: "RecordSelection",
    snapshot: Path | None,
    *,
    what: str,
    beside_output: bool = False,
) -> Iterator[TopicRun]:
    """Connect to the topics, and settle what is read of them. The progress bar is named `what`."""
    with ExitStack() as stack:
        run = stack.enter_context(recomposition_of(settings, selection, snapshot))
        bar = ExitStack()
        advance = bar.enter_context(progress(what, run.total, beside_output=beside_output))
        yield TopicRun(run, advance, bar)


def tell_empty() -> None:
    """Warn on stderr that there was nothing to compare, so that the result proves nothing."""
    typer.echo("apportion: nothing was compared: there is no request and no decision", err=True)
