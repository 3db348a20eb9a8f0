"""`apportion fit`: a chat in a file, fitted to a limit of tokens."""

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli import CommandError, ExitCode, note
from apportion.cli._files import naming, open_events, require_distinct, require_free, write_json
from apportion.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from apportion.core.results import ContextDecision
    from apportion.doors.fitting import Fitted, LocalSessions
    from apportion.settings import Settings

app = typer.Typer(add_completion=False)

_CHANGED = ("cleared", "shortened")
"""The fidelities of messages that are not sent as they came."""


@app.command(cls=with_settings("policies", "models_file", "counters", "decision_detail"))
def fit(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A provider's body or its messages, in JSON; - or none: stdin."),
    ] = None,
    *,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="The limit of tokens of all messages that are sent. By default the window of the model less"
            " its answer.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Count as this model does, and write it into the body. By default the body's model, if the"
            " table of models has it.",
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(metavar="NAME", help="A policy of strategy request or conversation.", show_default=True),
    ] = "fit",
    session: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the session in this file, so that the beginning of the chat stays from call to call."
            " The file's name is the session's id.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the body to this file, not to stdout.")] = None,
    decision: Annotated[Path | None, typer.Option(help="Write the decision to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Fit a chat to a limit of tokens, without Kafka: a provider's body in, the body that fits out.

    The other fields of the body stay. A summary is on stderr. Exits with 1 if the chat cannot be fitted or is
    refused; if a decision was made, it is written all the same. See docs/fit.md.

    Examples:
      apportion fit body.json --limit 100000 > fitted.json
      apportion fit body.json --model claude-opus-4-7 > fitted.json
      apportion fit - --limit 100000 --session chat-1.session --decision decision.json < body.json
    """
    from apportion.doors.fitting import FitError, FitOptions
    from apportion.doors.fitting import fit as fit_chat

    require_distinct(file, output, decision, session)
    for path, option in ((output, "--output"), (decision, "--decision")):
        require_free(path, option, force=force)
    settings, rows = read_settings(ctx), {} if session is None else _read_rows(session)
    body = _read_body(file)
    if model is not None and isinstance(body, dict):
        body = {**body, "model": model}
    try:
        fitted = fit_chat(
            body,
            limit,
            session_id=None if session is None else session.name,
            model=model,
            client=_local_sessions(settings, rows),
            options=FitOptions(policy=policy, continues=session is not None),
        )
    except FitError as error:
        _write_decision(decision, error.decision, settings)
        raise
    _write_decision(decision, fitted.decision, settings)
    with nullcontext(sys.stdout.buffer) if output is None else output.open("wb") as written:
        write_json(written, fitted.body)
    if session is not None:
        for row in rows.values():
            session.write_bytes(row)
    _summarize(fitted)


def _local_sessions(settings: "Settings", rows: dict[str, bytes]) -> "LocalSessions":
    from apportion.doors.fitting import LocalSessions
    from apportion.engine.assembly import create_catalogue, create_engine

    engine, catalogue = create_engine(settings), create_catalogue(settings)
    return LocalSessions(catalogue, models=engine.models, counters=engine.counters, rows=rows)


def _read_body(file: Path | None) -> Any:
    from msgspec import DecodeError, json

    from apportion.core.wire.not_json import why_not_json
    from apportion.core.wire.repair import decode_whole

    with open_events(file) as source, naming(source):
        value, name = source.read(), source.name
    try:
        body = decode_whole(json.Decoder(), value)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{name}: {why_not_json(value, str(error))}"
        raise CommandError("not_json", message, ExitCode.USAGE) from None
    if not isinstance(body, dict | list):
        raise CommandError("wrong_type", f"{name}: holds no body and no list of messages", ExitCode.USAGE)
    return body


def _read_rows(session: Path) -> dict[str, bytes]:
    """Return the row of the file by its session key; none without a file. Refuse a file of something else."""
    from msgspec import DecodeError, convert, json

    from apportion.core.events import session_key
    from apportion.core.session.row import Session

    if not session.exists() or not (row := session.read_bytes()):
        return {}
    try:
        fields = json.decode(row, type=dict[str, Any])
        convert(fields, Session)
    except (DecodeError, UnicodeDecodeError):
        fields = {}
    if not {"start_us"} <= fields.keys() <= {*Session.__struct_fields__}:
        message = f"{session}: holds no session; name another file, or delete it"
        raise CommandError("wrong_file", message, ExitCode.USAGE)
    return {session_key("default", session.name): row}


def _write_decision(path: Path | None, decision: "ContextDecision | None", settings: "Settings") -> None:
    from apportion.core.detail import in_detail

    if path is not None and decision is not None:
        with path.open("wb") as file:
            write_json(file, in_detail(decision, settings.decision_detail))


def _summarize(fitted: "Fitted") -> None:
    """Note the kept messages, and for each reason the messages and tokens that are not sent."""
    decision = fitted.decision
    kept = f"{decision.candidates_selected:,} of {decision.candidates_total:,} messages"
    note(f"{kept}, {fitted.used_tokens:,} of {fitted.limit_tokens:,} tokens")
    counts = {str(each.reason): each.count for each in decision.reasons}
    listed, tokens = Counter[str](), Counter[str]()
    for entry in decision.candidates:
        cause, tokens_now = str(entry.reason or entry.fidelity), entry.tokens or 0
        if entry.reason or cause in _CHANGED:
            listed[cause] += 1
            tokens[cause] += tokens_now if entry.reason else (entry.full_tokens or 0) - tokens_now
    for cause, number in (listed | Counter(counts)).items():
        least = "at least " if listed[cause] < number else ""  # a decision lists 1,000 omitted messages
        note(f"{cause}: {number:,} messages, {least}{tokens[cause]:,} tokens left out")
