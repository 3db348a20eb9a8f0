"""`apportion compose`: composing without Kafka."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TypeAlias

import typer

from apportion.cli import CommandError, ExitCode, note
from apportion.cli._files import EventsFile, open_events, require_distinct, require_free, write_json
from apportion.cli._lines import EVENTS, lines_of, watched
from apportion.cli._settings import read_settings, with_settings, without_kafka
from apportion.cli._table import print_shown

if TYPE_CHECKING:
    from msgspec import Struct

    from apportion.core.compose import Answered
    from apportion.core.results import ContextComposed, ContextDeadLetter
    from apportion.settings import Settings

app = typer.Typer(add_completion=False)

ComposeFormat: TypeAlias = Literal["openai", "anthropic", "text"]
_LISTED_MAX = 3
"""The largest number of refused events of one code that stderr lists."""


@app.command(cls=with_settings("default_policy", "policies", "fingerprint_secret_file", "decision_detail"))
def compose(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    file: EventsFile = None,
    *,
    decisions: Annotated[Path | None, typer.Option(help="Write the decisions to this file.")] = None,
    dead_letters: Annotated[
        Path | None,
        typer.Option(help="Write dead letters to this file; without it, stderr lists three of a code."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="The default policy; overrides the settings.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain each decision on stderr.")] = False,
    output_format: Annotated[
        ComposeFormat | None,
        typer.Option(
            "--format",
            help="Write each answer for a provider: its ids, its status and, as `body`, the messages"
            " (openai, anthropic) or the parts of the text (text). Without it: composed events. On a"
            " terminal, text prints the text itself.",
        ),
    ] = None,
) -> None:
    """Compose contexts without Kafka: events in, one JSON object per line; composed events out.

    Reads requests, artifacts and retractions from a file or stdin, in their order. Sessions start empty and
    continue from line to line. Exits with 3 if there are dead letters. Exits with 1 if a file fails (such as
    a full disk), if an answer cannot be expressed in the format, or if the reader of its output has ended.
    An event may have 16 MiB, and then takes up to 1.1 GB of memory; --event-max-bytes sets another bound.

    Examples:
      apportion compose events.jsonl --decisions decisions.jsonl > composed.jsonl
      apportion compose events.jsonl --policy agent --format anthropic | jq .body
      apportion workload recorded |
        APPORTION_FINGERPRINT_SECRET=a-first-try-only apportion compose --explain > /dev/null
    """
    settings = without_kafka(read_settings(ctx, default_policy=policy))
    require_distinct(file, decisions, dead_letters)
    require_free(decisions, "--decisions", force=force)
    require_free(dead_letters, "--dead-letters", force=force)
    with ExitStack() as stack:
        source = stack.enter_context(open_events(file))
        if source.isatty():
            note("reading events from the terminal, one per line; Ctrl-D ends")
        answers = _answers(source, settings, None if explain else stack)
        decided = stack.enter_context(decisions.open("wb")) if decisions else None
        refused = stack.enter_context(dead_letters.open("wb")) if dead_letters else None
        form = _Form(output_format)
        counts = _write_all(answers, settings, decided, refused, form, explain=explain)
    if counts:
        kept = f"they are in {dead_letters}" if dead_letters else "--dead-letters FILE keeps them"
        codes = ", ".join(f"{code} {count:,}" for code, count in counts.most_common())
        message = f"events refused: {counts.total():,} ({codes}); {kept}"
        raise CommandError("dead_letters", message, ExitCode.DEAD_LETTERS)
    if form.missing:
        raise CommandError("forms_missing", f"answers without a form in {output_format}: {form.missing:,}")


def _answers(
    source: BinaryIO, settings: "Settings", stack: ExitStack | None
) -> Iterator["Answered | ContextDeadLetter"]:
    from apportion.engine.assembly import create_catalogue, create_engine
    from apportion.engine.offline.answers import answer_lines
    from apportion.engine.offline.sessions import Sessions

    sessions = Sessions(create_engine(settings), create_catalogue(settings), settings.default_policy)
    lines = lines_of(source, settings.event_max_bytes, EVENTS)
    if stack is not None:
        lines = watched(lines, source, "composing", stack, beside_output=True)
    return answer_lines(lines, sessions, settings.bounds)


def _write_all(
    answers: Iterator["Answered | ContextDeadLetter"],
    settings: "Settings",
    decided: BinaryIO | None,
    refused: BinaryIO | None,
    form: "_Form",
    *,
    explain: bool,
) -> Counter[str]:
    """Write every answer to its file, and return the number of dead letters by code."""
    from apportion.core.detail import in_detail
    from apportion.core.results import ContextDeadLetter
    from apportion.core.wire.dead_letter import holding

    counts: Counter[str] = Counter()
    for answer in answers:
        if isinstance(answer, ContextDeadLetter):
            code = answer.error.code
            counts[code] += 1
            if refused is None and counts[code] <= (1 if code == "no_secret" else _LISTED_MAX):
                note(_error_line(answer))
            elif refused is not None:
                write_json(refused, holding(answer, settings.dead_letter_value))
            continue
        if decided is not None:
            write_json(decided, in_detail(answer.decision, settings.decision_detail))
        if explain:
            from apportion.decisions.explain.decision import explanation

            print_shown(explanation(answer.decision), stderr=True)
        form.write(answer.composed)
    return counts


class _Form:
    """The requested format. Answers that it cannot express are counted, and reported on stderr."""

    def __init__(self, output_format: ComposeFormat | None) -> None:
        self.missing = 0
        self._format = output_format

    def write(self, composed: "ContextComposed") -> None:
        """Write an answer to stdout: a text on a terminal as such, anything else as a line of JSON."""
        from apportion.printable import printable

        text = composed.text
        if self._format == "text" and sys.stdout.isatty() and isinstance(text, str):
            typer.echo("\n".join(printable(line) for line in text.expandtabs().splitlines()))
        else:
            write_json(sys.stdout.buffer, self._shaped(composed))

    def _shaped(self, composed: "ContextComposed") -> "Struct":
        if self._format is None:
            return composed
        from apportion.doors.formats import BODIES, FormatError, shaped
        from apportion.printable import printable

        try:
            return shaped(composed, BODIES[self._format])
        except FormatError as error:
            self.missing += 1
            note(f"request {printable(composed.request_id)}: {error}")
            return shaped(composed, None)


def _error_line(letter: "ContextDeadLetter") -> str:
    from apportion.printable import printable

    error = letter.error
    remedy = ", or `export APPORTION_FINGERPRINT_SECRET=…`" if error.code == "no_secret" else ""
    line = f"line {letter.source.offset + 1}: {error.code}: {error.message}{remedy} (at {error.pointer})"
    return printable(line)
