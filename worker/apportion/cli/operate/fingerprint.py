"""`apportion fingerprint`: the ids of paths in decisions."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import CommandError, ExitCode
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table

if TYPE_CHECKING:
    from apportion.core.fingerprints import Secrets

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("fingerprint_secret_file"))
def fingerprint(
    ctx: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Paths, as in the candidates of events.")
    ],
    *,
    kind: Annotated[str, typer.Option(help="The candidate's kind, if it has one.")] = "",
    lane: Annotated[str, typer.Option(help="The candidate's lane, if it has one.")] = "",
    chunk_index: Annotated[
        int, typer.Option(min=0, help="The index of the candidate's part of the file.")
    ] = 0,
    tenant: Annotated[str, typer.Option(help="The tenant whose secret is used.")] = "default",
) -> None:
    """Print the ids that paths have in decisions: an id and its path on each line.

    An id is made from the path and from the candidate's kind, lane and chunk index, with the secret of the
    tenant; see docs/verify.md. It cannot be made without the secret. While secrets are rotated, a path has a
    line for each secret, with the sessions that use it and its key id in decisions.

    Examples:
      apportion fingerprint src/auth.py --kind local_diff --lane local
      git ls-files | xargs apportion fingerprint --kind rule_doc --lane rules
    """
    from apportion.core.errors import EventError
    from apportion.core.fingerprints import key_id
    from apportion.core.path_ids import normalised_path, path_id
    from apportion.printable import printable
    from apportion.settings.fingerprint_secrets import read_secrets

    secrets = _by_sessions(read_secrets(read_settings(ctx)), tenant)
    if not secrets:
        message = (
            "this tenant has no fingerprint secret; "
            "set fingerprint_secret_file, or APPORTION_FINGERPRINT_SECRET in the environment"
        )
        raise CommandError("no_secret", message, ExitCode.USAGE)
    try:
        normal = [normalised_path(path, f"PATH {number}") for number, path in enumerate(paths, 1)]
    except EventError as error:
        raise typer.BadParameter(f"{error.pointer}: {error.message}") from None
    rows = [
        (path_id(secret, path, kind, lane, chunk_index), printable(path), sessions, key_id(secret))
        for path in normal
        for sessions, secret in secrets.items()
    ]
    if len(secrets) == 1:
        print_table(("Id", "Path"), [row[:2] for row in rows])
    else:
        print_table(("Id", "Path", "Sessions that began", "Key id"), rows)


def _by_sessions(secrets: "Secrets", tenant: str) -> dict[str, bytes]:
    moment = datetime.fromtimestamp(secrets.since_us / 1_000_000, UTC).isoformat().replace("+00:00", "Z")
    by_sessions = {f"since {moment}": secrets.of(tenant, secrets.since_us)}
    if secrets.previous is not None:
        by_sessions[f"before {moment}"] = secrets.of(tenant, secrets.since_us - 1)
    return {sessions: secret for sessions, secret in by_sessions.items() if secret is not None}
