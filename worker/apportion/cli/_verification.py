"""Recorded events composed again, for the commands that do so, as their settings say."""

from typing import TYPE_CHECKING, BinaryIO

import typer

from apportion.cli._lines import lines_of

if TYPE_CHECKING:
    from apportion.replay.verify import Verification
    from apportion.settings import Settings


def verification_of(
    settings: "Settings", decisions: BinaryIO, dead_letters: BinaryIO | None = None
) -> "Verification":
    """Return a run over these logs.

    Raises:
        PolicyError, SettingsError: the policies or secrets that the settings name are wrong.
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


def tell_empty() -> None:
    """Say on stderr that there was nothing to compose again: what is right of nothing proves nothing."""
    typer.echo("apportion: nothing was compared: no request and no decision is there", err=True)
