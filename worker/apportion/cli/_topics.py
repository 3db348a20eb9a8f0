"""The flags that select files or parts of topics."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from apportion.decisions.recompose.ranges import RecordSelection

_OFFSETS = re.compile(r"([0-9]{1,9}):([0-9]{1,18})-([0-9]{0,18})", re.ASCII)

EventsFile: TypeAlias = Annotated[
    Path | None, typer.Argument(help="The recorded events, as JSON lines; - is stdin.")
]
DecisionsFile: TypeAlias = Annotated[
    Path | None, typer.Argument(help="The decisions on these events, as JSON lines.")
]
FromTopics: TypeAlias = Annotated[
    bool, typer.Option("--from-topics", help="Read the topics of the settings instead of files.")
]
RecordedSince: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only records written then or later (RFC 3339).")
]
RecordedUntil: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only records written before.")
]
Since: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only requests recorded then or later (RFC 3339).")
]
Until: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="Only requests recorded before.")]
Offsets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTITION:FIRST-LAST",
        help="Only these requests, and only these partitions; can be repeated; LAST is optional.",
    ),
]
StartSnapshot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="Start with the sessions of this file, which apportion snapshot wrote.",
    ),
]


def require_files(events: Path | None, decisions: Path | None, snapshot: Path | None) -> tuple[Path, Path]:
    """Return the files to read instead of topics; refuse missing files, and a snapshot with files."""
    if snapshot is not None:
        raise typer.BadParameter("needs --from-topics", param_hint="--snapshot")
    if events is None or decisions is None:
        raise typer.BadParameter("give the files EVENTS and DECISIONS, or --from-topics")
    return events, decisions


def selection_of(
    files: Iterable[Path | None],
    since: str | None,
    until: str | None,
    offsets: list[str] | None,
    *,
    from_topics: bool,
) -> "RecordSelection | None":
    """Return the selected records of the topics, or None for files; refuse flags of the other kind."""
    if not from_topics:
        if since or until or offsets:
            raise typer.BadParameter("times and offsets need --from-topics")
        return None
    if any(file is not None for file in files):
        raise typer.BadParameter("give files, or --from-topics, not both")

    from apportion.decisions.recompose.ranges import RecordSelection  # imports Kafka's libraries

    return RecordSelection(_time_ms("--since", since), _time_ms("--until", until), _offsets(offsets or []))


def _time_ms(flag: str, text: str | None) -> int | None:
    from datetime import datetime

    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        time_ms = None if time.tzinfo is None else max(0, round(time.timestamp() * 1000))
    except (ValueError, OverflowError):
        time_ms = None
    if time_ms is None:
        raise typer.BadParameter("expected a time, such as 2026-03-01T12:00:00Z", param_hint=flag)
    return time_ms


def _offsets(texts: list[str]) -> dict[int, tuple[int, int | None]]:
    offsets: dict[int, tuple[int, int | None]] = {}
    for text in texts:
        match = _OFFSETS.fullmatch(text)
        if match is None:
            raise typer.BadParameter(
                "expected PARTITION:FIRST-LAST, such as 3:100-200 or 3:100-", param_hint="--offsets"
            )
        partition, first, last = match.groups()
        if int(partition) in offsets:
            raise typer.BadParameter(f"partition {int(partition)} is given twice", param_hint="--offsets")
        offsets[int(partition)] = (int(first), int(last) if last else None)
        if last and int(last) < int(first):
            raise typer.BadParameter(f"{text}: ends before it begins", param_hint="--offsets")
    return offsets
