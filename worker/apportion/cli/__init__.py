"""The command `apportion`: one file a command.

Decides which commands there are, how an error looks and which exit code it has. What a command does is
not decided here, nor in its file: that reads flags, calls a room and prints.

To add the command `NAME`, write `worker/apportion/cli/NAME.py` with a Typer `app`, and put its name into
`COMMANDS`. It imports the rooms inside its functions, for `--help` and completion import every file here
(`tests/unit/cli/test_frame.py` holds it to that). `config.py` is a command, `topics.py` a group of two.
Files with an underscore are what commands share. This one imports next to nothing before it runs, so that a
Ctrl-C right at the start leaves no stack trace.
"""

import sys
from enum import IntEnum

COMMANDS = (
    "demo",
    "run",
    "health",
    "send",
    "compose",
    "verify",
    "explain",
    "replay",
    "snapshot",
    "sink",
    "report",
    "fingerprint",
    "workload",
    "policies",
    "topics",
    "config",
)
"""In the order of `--help`."""

_OF_EXTRAS = {
    "aiohttp": "worker",
    "aiokafka": "worker",
    "cramjam": "worker",
    "faust": "worker",
    "mode": "worker",
    "opentelemetry": "otel",
    "prometheus_client": "worker",
}
"""What extras bring: composing needs none of it."""
_NEEDING = {
    "worker": "this command talks to Kafka, and {library} is not installed: "
    "run `pip install 'apportion[worker]'`; for the demo, `pip install 'apportion[demo]'`",
    "otel": "tracing is on, and {library} is not installed: run `pip install 'apportion[otel]'`",
}


class ExitCode(IntEnum):
    """What the shell sees; a typed error may name its own as `exit_code`, and is a failure otherwise."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    DEAD_LETTERS = 3
    INTERRUPTED = 130


def main() -> None:
    """Run the command line; a typed error becomes one line a problem on stderr, and an exit code."""
    try:
        _run()
    except KeyboardInterrupt:  # while something is imported; Typer ends commands likewise
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # nobody reads any more, which needs no word
        sys.exit(ExitCode.FAILURE)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _OF_EXTRAS:
            raise
        _tell("missing_extra: " + _NEEDING[_OF_EXTRAS[library]].format(library=library))
        sys.exit(ExitCode.USAGE)
    except Exception as error:
        code = "file_failed" if isinstance(error, OSError) else getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        for line in _said(error).splitlines():
            _tell(line if line.startswith(code) else f"{code}: {line}")
        sys.exit(getattr(error, "exit_code", ExitCode.FAILURE))


def _tell(line: str) -> None:
    print(f"apportion: {line}", file=sys.stderr)  # noqa: T201 - this is where errors are told


def _run() -> None:
    from apportion.cli._commands import app
    from apportion.cli._streams import flush_stdout, mend_streams
    from apportion.operations.gc_tuning import collect_seldom

    collect_seldom()
    mend_streams()
    try:
        app(prog_name="apportion")
    finally:
        flush_stdout()


def _said(error: Exception) -> str:
    """Return what an error says; of the system's own the file, if it names one, and the reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename or 'reading or writing failed'}: {error.strerror}"
