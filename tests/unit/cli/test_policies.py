import json
import os
from pathlib import Path

import pytest
from support.commands import apportion

GOOD = 'name = "small"\nversion = "3"\nstrategy = "lanes"\nbudget_tokens = 2000\n'
WITHOUT_NAME = 'version = "1"\nstrategy = "lanes"\nbudget_tokens = -1\ncolour = "red"\n'


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)


def test_a_good_policy_is_ok_with_name_version_strategy_and_digest(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(GOOD)
    ended = apportion("policies", "check", "small.toml")
    assert (ended.exit_code, ended.err) == (0, "")
    *cells, digest = ended.out.decode().rstrip("\n").split("\t")
    assert cells == ["small.toml", "ok", "small", "3", "lanes"]
    assert digest.startswith("sha256:")


def test_all_errors_of_all_files_come_at_once_each_with_file_key_and_reason(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "one.toml").write_text(WITHOUT_NAME)
    (tmp_path / "two.toml").write_text(GOOD + "[lanes.local]\npriority = 0\nmin_tokens = 9\nmax_tokens = 5\n")
    (tmp_path / "three.toml").write_text("no toml")
    files = ("one.toml", "good.toml", "two.toml", "three.toml")
    ended = apportion("policies", "check", *files)
    assert ended.exit_code == 2
    assert [line.split(b"\t")[0] for line in ended.out.splitlines()] == [b"good.toml"]
    told = [line.removeprefix("apportion: invalid_policy: ") for line in ended.err.splitlines()]
    assert told[0] == "one.toml: name: required"
    assert told[1].startswith("one.toml: budget_tokens: ")
    assert told[2] == "one.toml: colour: unknown key; this strategy does not have it"
    assert told[3] == "two.toml: lanes.local.min_tokens: 9 is above max_tokens 5"
    assert told[4].startswith("three.toml: file: not TOML")
    assert len(told) == 5


def test_a_policys_model_needs_a_row_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/own.toml").write_text(GOOD + 'counter = "model"\nmodel = "claude-opus-9"\n')
    told = "model: the table of models has no row for this model; the nearest are claude-opus-"
    for command in (("check", "folder/own.toml"), ("list", "--offline", "--policies", "folder")):
        ended = apportion("policies", *command)
        assert ended.exit_code == 2
        assert ended.err.startswith(f"apportion: invalid_policy: folder/own.toml: {told}")
        assert ended.err.endswith("; add a row in models_file\n")
    row = 'name = "own"\nnames = ["claude-opus-9"]\nprovider = "us"\ncounter = "chars4"\n'
    (tmp_path / "models.toml").write_text(f'version = "1"\n[[models]]\n{row}')
    checked = apportion("policies", "check", "folder/own.toml", "--models-file", "models.toml")
    assert (checked.exit_code, checked.err) == (0, "")


def test_two_files_with_one_name_and_version_are_refused(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    ended = apportion("policies", "check", "first.toml", "second.toml")
    assert ended.exit_code == 2
    assert [line.split(b"\t")[0] for line in ended.out.splitlines()] == [b"first.toml"]
    told = "second.toml: version: first.toml has the same name and version; give each policy its own"
    assert ended.err == f"apportion: invalid_policy: {told}\n"


@pytest.mark.parametrize("command", [("policies", "list", "--offline"), ("run",)])
def test_a_folder_that_holds_a_refused_policy_is_wrong_configuration(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "first.toml").write_text(GOOD)
    (tmp_path / "second.toml").write_text(GOOD)
    ended = apportion(*command, "--policies", ".")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: invalid_policy: second.toml: version: first.toml has the same")


@pytest.mark.parametrize("files", [(), ("missing.toml",), (".",)])
def test_a_file_that_is_none_is_wrong_usage(files: tuple[str, ...]) -> None:
    assert apportion("policies", "check", *files).exit_code == 2


def test_the_offline_list_has_built_in_policies_and_policies_of_the_folder(tmp_path: Path) -> None:
    builtin = apportion("policies", "list", "--offline").out.decode().splitlines()
    assert any(line.startswith("lanes\t1\tlanes\tbuilt-in\talways\talways\tsha256:") for line in builtin)
    (tmp_path / "own").mkdir()
    dated = GOOD + 'effective_from = "2026-01-01T01:00:00+01:00"\n'
    (tmp_path / "own" / "small.toml").write_text(dated)
    both = apportion("policies", "list", "--offline", "--policies", "own").out.decode().splitlines()
    assert both[:-1] == builtin
    assert both[-1].startswith("small\t3\tlanes\tfile\t2026-01-01T00:00:00.000Z\talways\tsha256:")


def test_the_list_is_json_on_request() -> None:
    ended = apportion("policies", "list", "--offline", "--format", "json")
    [lanes] = [each for each in json.loads(ended.out) if each["name"] == "lanes"]
    assert {name: lanes[name] for name in ("version", "source", "effective_from", "counts_from")} == {
        "version": "1",
        "source": "built-in",
        "effective_from": None,
        "counts_from": None,
    }


def test_one_refused_file_prevents_every_publication(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "bad.toml").write_text(WITHOUT_NAME)
    ended = apportion("policies", "publish", "good.toml", "bad.toml", "--brokers", "localhost:1")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: invalid_policy: bad.toml: name: required")
