"""`apportion workload from-files`, `from-git` and `recorded`: realistic events to try things with."""

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from apportion.cli import note
from apportion.cli._extra import needing_extra
from apportion.cli._files import naming
from apportion.cli._progress import progress

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Make realistic events, as JSON lines.")

_Out = Annotated[Path | None, typer.Option("-o", "--out", help="Write to this file instead of stdout.")]


@app.command()
def from_git(
    repository: Annotated[Path, typer.Argument(help="Any git repository.")],
    *,
    revision: Annotated[str, typer.Option(help="The last commit of the history.")] = "HEAD",
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Make only the last N requests; by default all.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Policy that the requests name; by default none.")
    ] = None,
    out: _Out = None,
) -> None:
    """Make requests from a repository's history: one for every saved file, one for every commit.

    The same commit gives the same bytes on every machine. Candidates are named by their paths, so
    composing them needs a fingerprint secret.

    Examples:
      apportion workload from-git . --max-requests 100 -o events.jsonl
      apportion workload from-git . --max-requests 10 |
        APPORTION_FINGERPRINT_SECRET=a-first-try-only apportion compose --explain > /dev/null
    """
    with needing_extra("code"):
        from apportion.demo.workload.requests import from_git

    os.scandir(repository).close()  # a wrong path is an error of the system

    _write(from_git(repository, revision, max_requests=max_requests, policy=policy), max_requests, out)


@app.command()
def from_files(
    folder: Annotated[Path, typer.Argument(metavar="PATH", help="Any folder.")],
    *,
    query: Annotated[str, typer.Option(metavar="TEXT", help="The question that the context is for.")],
    max_file_bytes: Annotated[
        int, typer.Option(metavar="N", min=1, help="A larger file gives its best passages, up to this size.")
    ] = 32_768,
    max_bytes: Annotated[
        int, typer.Option(metavar="N", min=4_096, help="Largest event, at most 16 MiB for `compose`.")
    ] = 1_000_000,
    out: _Out = None,
) -> None:
    """Make one request from the text files of a folder and a question.

    The files with the best passages are taken whole while they fit, larger files by windows. Lock files,
    minified, vendored and generated files come last. Pages and notebooks give their text. Files above 8 MiB
    and files that a .gitignore names are left out. Files are numbered, so that a decision holds no path; the
    text of policy `search` names their paths. The number of files left out is printed to stderr.

    Examples:
      apportion workload from-files . --query "Where is a lane's floor enforced?" |
        apportion compose --policy search --format text
    """
    with needing_extra("code"):
        from apportion.demo.workload.files import QueryError, from_files
        from apportion.demo.workload.folder import LeftOut
    from apportion.printable import printable

    os.scandir(folder).close()  # as in `from_git`

    try:
        made = from_files(folder, query, file_bytes_max=max_file_bytes, bytes_max=max_bytes)
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint="--query") from None
    others = {reason: count for reason, count in made.left_out.items() if reason is not LeftOut.NO_ROOM}
    left_out = ", ".join([f"{reason} {count:,}" for reason, count in others.items()])
    files = f"files {made.files:,}"
    if unfit := made.left_out.get(LeftOut.NO_ROOM, 0):
        files = f"the {made.files:,} of {made.files + unfit:,} files that fit the query best (--max-bytes)"
    if made.parts:
        files += f", {made.parts:,} of them in part"
    note(f"{files}; left out: {left_out or 'none'}")
    if made.named:
        note(f"left out with most words of the query: {', '.join(map(printable, made.named))}")
    _write([made.event], None, out)


@app.command()
def recorded(*, out: _Out = None) -> None:
    """Print the recorded requests that the package ships.

    Examples:
      apportion workload recorded |
        APPORTION_FINGERPRINT_SECRET=a-first-try-only apportion compose > composed.jsonl
    """
    from apportion.demo.workload.recording import recorded

    _write(recorded(), None, out)


def _write(events: Iterable[bytes], total: int | None, out: Path | None) -> None:
    with ExitStack() as stack:
        file = stack.enter_context(out.open("wb")) if out else sys.stdout.buffer
        advance = stack.enter_context(progress("making requests", total, beside_output=out is None))
        for done, event in enumerate(events, 1):
            with naming(file):
                file.write(event + b"\n")
                file.flush()
            advance(done)
