import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands import started

import apportion.cli
import apportion.cli._commands
from apportion import ENGINE_VERSION, __version__
from apportion.cli import main
from apportion.cli._commands import COMMANDS
from apportion.settings import NAMES, SECRETS, flag_of

ROOT = Path(__file__).parents[3]
SOURCES = str(ROOT / "worker")
VERSIONS = f"apportion {__version__}, engine {ENGINE_VERSION}\n"
ROOMS = (
    "aiokafka",
    "faust",
    "mcp",
    "pydantic_settings",
    "tiktoken",
    "apportion.core",
    "apportion.settings",
    "apportion.shell.stream",
)


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in this process, in an empty folder, without our variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer sets its own
    monkeypatch.setenv("COLUMNS", "200")
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["apportion", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port without a listener, reserved so that no other process can bind it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def process(code: str, **variables: str) -> str:
    """Run code in a fresh interpreter with the package's sources; return its output."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES, **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(  # noqa: S603 - our own interpreter and code
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def imported_by(arguments: str, **variables: str) -> tuple[str, set[str]]:
    code = f"""
import contextlib, sys
sys.argv = ["apportion", *{arguments!r}.split()]
from apportion.cli import main
with contextlib.suppress(SystemExit):
    main()
print("imported:", *sys.modules)
"""
    out, _, modules = process(code, **variables).rpartition("imported:")
    return out, set(modules.split())


def test_every_file_without_an_underscore_is_a_command() -> None:
    files = {file.stem: file.parent.name for file in Path(apportion.cli.__file__).parent.glob("*/[!_]*.py")}
    assert files == COMMANDS


def test_help_lists_every_command_and_imports_no_room() -> None:
    out, modules = imported_by("--help")
    assert all(f" {command} " in out for command in COMMANDS)
    assert modules.isdisjoint(ROOMS)


def test_completion_offers_commands_and_imports_no_room() -> None:
    out, modules = imported_by(
        "", _APPORTION_COMPLETE="complete_bash", COMP_WORDS="apportion top", COMP_CWORD="1"
    )
    assert out.split() == ["topics"]
    assert modules.isdisjoint(ROOMS)


def test_completion_offers_the_flags_of_settings() -> None:
    out, _ = imported_by(
        "", _APPORTION_COMPLETE="complete_bash", COMP_WORDS="apportion config --part", COMP_CWORD="2"
    )
    assert out.split() == ["--partitions", "--partitioner"]


def test_the_package_runs_as_the_command_does() -> None:
    command = [sys.executable, "-m", "apportion", "--version"]
    version = subprocess.check_output(command, cwd=ROOT, text=True)  # noqa: S603 - our own interpreter
    assert version == VERSIONS


def test_a_module_named_worker_does_not_replace_the_package(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("raise SystemExit('another worker')")
    code = "import sys; sys.argv[1:] = ['--version']; from apportion.cli import main; main()"
    assert (
        process(code, PYTHONPATH=f"{tmp_path}:{SOURCES}")
        == f"apportion {__version__}, engine {ENGINE_VERSION}\n"
    )


def test_an_unknown_command_is_wrong_usage_and_names_the_nearest(run: Run) -> None:
    ended = run("topisc")
    assert ended.exit_code == 2
    assert "Did you mean 'topics'?" in ended.err


def test_an_unknown_flag_is_wrong_usage(run: Run) -> None:
    assert run("config", "--partition", "4").exit_code == 2


@pytest.mark.parametrize("command", [*COMMANDS, "topics create", "topics check"])
def test_every_command_has_help(command: str, run: Run) -> None:
    ended = run(*command.split(), "--help")
    assert ended.exit_code == 0
    assert "Usage: apportion" in ended.out


def test_help_flows_at_any_width_and_has_nothing_that_rich_takes_for_markup() -> None:
    commands = [apportion.cli._commands._Commands()[name] for name in COMMANDS]
    commands += [each for group in commands for each in getattr(group, "commands", {}).values()]
    for command in commands:
        for paragraph in command.help.split("\n\n"):
            assert not re.search(r"\[[a-z/]", paragraph), paragraph
            if paragraph.startswith("Examples:"):
                assert max(map(len, paragraph.splitlines())) < 79, paragraph
            else:
                assert "\n" not in paragraph, paragraph


def test_every_setting_but_a_secret_is_a_flag(run: Run) -> None:
    words = set(run("config", "--help").out.split())
    assert {name for name in NAMES if flag_of(name) not in words} == SECRETS


def test_a_command_shows_the_flags_that_concern_it_and_takes_all(run: Run) -> None:
    words = set(run("topics", "check", "--help").out.split())
    assert "--partitions" in words
    assert "--tags-max" not in words
    ended = run("topics", "check", "--tags-max", "0")
    assert ended.err.startswith("apportion: invalid_settings: tags_max (--tags-max): ")


def test_an_absent_flag_keeps_the_environment_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_PARTITIONS", "8")
    shown = json.loads(run("config", "--json", "--app-id", "staging").out)
    assert (shown["partitions"]["value"], shown["partitions"]["origin"]) == (8, "APPORTION_PARTITIONS")
    assert (shown["app_id"]["value"], shown["app_id"]["origin"]) == ("staging", "--app-id")


def test_a_flag_names_the_file_of_settings(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("partitions = 6")
    shown = json.loads(run("config", "--config", str(file), "--json").out)
    assert shown["partitions"] == {
        "value": 6,
        "origin": str(file),
        "help": "Partitions of the input, output and table topics; fixed once the topics exist.",
    }


def test_config_prints_a_line_a_setting_into_a_pipe(run: Run) -> None:
    rows = [line.split("\t") for line in run("config", "--brokers", "a:1,b:2").out.splitlines()]
    assert [row[0] for row in rows] == list(NAMES)
    assert rows[0][:3] == ["brokers", "a:1,b:2", "--brokers"]
    assert {len(row) for row in rows} == {4}


def test_config_draws_a_table_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "apportion", "config"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": SOURCES,
        "COLUMNS": "120",
        "TERM": "dumb",
    }
    with started(command, cwd=tmp_path, env=environment, stdout=theirs):
        os.close(theirs)
        shown = b"".join(iter(lambda: drained(ours), b"")).decode()
    os.close(ours)
    assert shown.split()[:3] == ["Setting", "Value", "From"]
    assert all(name in shown for name in NAMES)


def drained(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux's way to say that the other side is closed
        return b""


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_masks_a_secret(form: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_FINGERPRINT_SECRET", "hush, this is a secret")
    ended = run("config", *form)
    assert ended.exit_code == 0
    assert "APPORTION_FINGERPRINT_SECRET" in ended.out
    assert "**********" in ended.out
    assert "hush" not in ended.out


def test_wrong_settings_are_wrong_usage_with_a_line_a_problem(run: Run, tmp_path: Path) -> None:
    (tmp_path / "apportion.toml").write_text('colour = "red"')
    ended = run("config", "--partitions", "0")
    assert (ended.exit_code, ended.out) == (2, "")
    assert [line.split(" (")[0] for line in ended.err.splitlines()] == [
        "apportion: invalid_settings: colour",
        "apportion: invalid_settings: partitions",
    ]


@pytest.mark.parametrize("command", ["create", "check"])
def test_an_unreachable_broker_is_named_in_a_one_line_failure(
    command: str, closed_port: int, tmp_path: Path
) -> None:
    arguments = [
        sys.executable,
        "-m",
        "apportion",
        "topics",
        command,
        "--brokers",
        f"127.0.0.1:{closed_port}",
    ]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES}
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    why = f"127.0.0.1:{closed_port} refuses connections"
    assert line.startswith(f"apportion: broker_unreachable: no Kafka broker can be used: {why}")


def test_a_broker_that_listens_but_is_silent_is_given_up(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = run("topics", "check", "--brokers", address, "--request-timeout-s", "0.2")
    assert ended.exit_code == 1
    assert f"no Kafka broker answered at {address} within 0.2 s" in ended.err


class RefusedError(Exception):
    """A typed error, as in every package: a code and a text."""

    code = "refused"


def ended_by(error: Exception, monkeypatch: pytest.MonkeyPatch, run: Run) -> Ended:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(apportion.cli._commands, "app", fail)
    return run()


def test_a_typed_error_is_a_one_line_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ended_by(RefusedError("not today"), monkeypatch, run)
    assert ended == Ended(1, "", "apportion: refused: not today\n")


def test_an_error_code_is_printed_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ended_by(RefusedError("refused: not today (at $)"), monkeypatch, run)
    assert ended.err == "apportion: refused: not today (at $)\n"


def test_an_untyped_error_is_a_bug_and_keeps_its_trace(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        ended_by(ZeroDivisionError(), monkeypatch, run)


def test_nothing_slow_is_imported_before_main_runs() -> None:
    modules = set(process("import sys, apportion.cli; print(*sys.modules)").split())
    assert modules.isdisjoint({*ROOMS, "typer", "rich", "logging", "apportion.cli._commands"})


def test_a_ctrl_c_while_it_still_imports_ends_without_a_trace() -> None:
    code = """
import sys

class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
import apportion.__main__
"""
    ended = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_config_check_reads_named_files_and_reports_only_problems(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a fixed secret for tests")
    assert run("config", "--check", "--fingerprint-secret-file", "secret") == Ended(0, "", "")
    for wrong, said in (
        (("--fingerprint-secret-file", "nowhere"), "apportion: nowhere: cannot be read: No such file"),
        (("--policies", "nowhere"), "policies (--policies): nowhere: cannot be read: No such file"),
        (("--default-policy", "none"), "default_policy (--default-policy): no policy of that name"),
        (("--security-protocol", "SSL", "--ssl-cafile", "nowhere"), "ssl_cafile"),
    ):
        ended = run("config", "--check", *wrong)
        assert (ended.exit_code, ended.out) == (2, "")
        assert said.removeprefix("apportion: ") in ended.err
