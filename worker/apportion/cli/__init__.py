"""The command `apportion`: one file per command.

A command's file reads flags, calls another package and prints. The form of errors and the exit codes are
here, the list of commands is in `_commands.py`.

To add the command `NAME`, write `cli/PANEL/NAME.py` with a Typer `app`, and add it to `_PANELS`. A panel is a
folder and a heading of `--help`. Import other packages inside the command's functions: `--help` and
completion import every command (`tests/unit/cli/test_frame.py` checks it). Commands share the files with an
underscore. This file imports almost nothing before it runs, so that an early Ctrl-C leaves no stack trace.
"""

import sys
from enum import IntEnum

_EXTRAS = {
    "aiohttp": "worker",
    "aiokafka": "worker",
    "cramjam": "worker",
    "faust": "worker",
    "mode": "worker",
    "opentelemetry": "otel",
    "prometheus_client": "worker",
}
"""Libraries that are only installed with an extra, by the extra's name."""
_MISSING = {
    "worker": "this command talks to Kafka or serves HTTP, and {library} is not installed: "
    "run `pip install 'apportion[worker]'`; for the demo, `pip install 'apportion[demo]'`",
    "otel": "tracing is on, and {library} is not installed: run `pip install 'apportion[otel]'`",
}


class ExitCode(IntEnum):
    """The exit codes. A typed error can have another one as `exit_code`; by default it is a failure."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    DEAD_LETTERS = 3
    INTERRUPTED = 130


class CommandError(Exception):
    """A command's own error, with its code and the exit code."""

    def __init__(self, code: str, message: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


def main() -> None:
    """Run the command line. A typed error becomes one line per problem on stderr, and an exit code."""
    try:
        _run()
    except KeyboardInterrupt:  # during an import; Typer ends commands in the same way
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has ended, which needs no message
        sys.exit(ExitCode.FAILURE)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise
        note("missing_extra: " + _MISSING[_EXTRAS[library]].format(library=library))
        sys.exit(ExitCode.USAGE)
    except Exception as error:
        code = "file_failed" if isinstance(error, OSError) else getattr(error, "code", None)
        if not isinstance(code, str):
            raise
        for line in _message(error).splitlines():
            note(line if line.startswith(code) else f"{code}: {line}")
        usage = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
        code_of_kind = ExitCode.USAGE if isinstance(error, usage) else ExitCode.FAILURE
        sys.exit(getattr(error, "exit_code", code_of_kind))


def note(line: str) -> None:
    """Print a line to stderr, after the command's name."""
    print(f"apportion: {line}", file=sys.stderr)  # noqa: T201 - nothing else is imported here


def _run() -> None:
    from apportion.cli._commands import app
    from apportion.cli._streams import flush_stdout, mend_streams
    from apportion.shell.operations.gc_tuning import collect_seldom

    collect_seldom()
    mend_streams()
    try:
        app(prog_name="apportion")
    finally:
        flush_stdout()


def _message(error: Exception) -> str:
    """Return the message of an error; for an error of the system, its file, if known, and the reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename or 'reading or writing failed'}: {error.strerror}"
