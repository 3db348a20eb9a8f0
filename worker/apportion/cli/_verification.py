"""The verification of recorded files, set up from the settings."""

from typing import TYPE_CHECKING, BinaryIO

import typer

from apportion.cli._lines import lines_of

if TYPE_CHECKING:
    from apportion.replay.verify import Verification
    from apportion.settings import Settings


def verification_of(
    settings: "Settings", decisions: BinaryIO, dead_letters: BinaryIO | None = None
) -> "Verification":
    """Return a verification of these files.

    Raises:
        PolicyError, SettingsError: the policies or secrets that the settings name are invalid.
    """
    from apportion.assembly import create_engine, create_timeline
    from apportion.replay.log import LINE_MAX_BYTES
    from apportion.replay.reading import FileReading
    from apportion.replay.verify import Verification

    return Verification(
        create_engine(settings),
        create_timeline(settings),
        settings.default_policy,
        FileReading(settings.bounds),
        lines_of(decisions, LINE_MAX_BYTES),
        None if dead_letters is None else lines_of(dead_letters, LINE_MAX_BYTES),
    )


def warn_empty() -> None:
    """Warn on stderr that there was nothing to compare, so that the result proves nothing."""
    typer.echo("apportion: nothing was compared: there is no request and no decision", err=True)
