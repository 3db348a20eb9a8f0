"""Errors of policy files, reported all at once by file and key."""

from pathlib import Path

import pytest
from support.composing import lanes_policy

from apportion.core.bounds import Bounds
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextRequest
from apportion.core.policies.catalogue import Catalogue
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import PolicyError, Problem
from apportion.core.wire.codec import decode
from apportion.engine.policies import load_catalogue, load_policies, load_policy

LANES = 'name = "{name}"\nversion = "{version}"\nstrategy = "lanes"\n'


def written(folder: Path, **texts: str) -> list[Path]:
    files = [folder / f"{name}.toml" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    return files


def keys(error: pytest.ExceptionInfo[PolicyError]) -> list[str]:
    return [problem.key for problem in error.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5_000 + "]" * 5_000,
        "a = " + "{a = " * 5_000 + "1" + "}" * 5_000,
        "a = 1" + "0" * 5_000,
        "\ufeffname = 'x'",
        "a = 1\na = 2",
        "a = nan\nb",
    ],
    ids=["arrays", "tables", "digits", "byte order mark", "twice", "no value"],
)
def test_a_file_that_is_no_toml_is_a_policy_error(text: str, tmp_path: Path) -> None:
    [file] = written(tmp_path, bad=text)
    with pytest.raises(PolicyError, match=r"bad\.toml: file: not TOML"):
        load_policy(file)


def test_bytes_that_are_no_utf_8_are_a_policy_error(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(PolicyError, match="not TOML in UTF-8"):
        load_policy(tmp_path / "bad.toml")


def test_with_an_unknown_strategy_common_fields_are_still_checked() -> None:
    raw = {
        "version": 1,
        "strategy": "lane",
        "counter": "words",
        "colour": "red",
        "session": {"max_tokens": -1, "idle": 5},
        "lanes": {},
    }
    with pytest.raises(PolicyError) as caught:
        parse_policy(raw)
    assert keys(caught) == [
        "strategy", "name", "version", "counter", "session.max_tokens", "session.idle",
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", [None, 5, ["lanes"], "Lanes"])
def test_a_strategy_that_is_none_is_named_once(strategy: object) -> None:
    raw = {"name": "x", "version": "1"} | ({} if strategy is None else {"strategy": strategy})
    with pytest.raises(PolicyError) as caught:
        parse_policy(raw)
    assert keys(caught) == ["strategy"]


def test_a_value_in_place_of_a_table_is_reported_in_terms_of_toml() -> None:
    with pytest.raises(PolicyError) as caught:
        lanes_policy(session=5, lanes={"local": 1}, render={"template": "{secret}"})
    assert {problem.key: problem.reason for problem in caught.value.problems if "." not in problem.key} == {
        "session": "expected a table"
    }
    assert "expected a table" in [each.reason for each in caught.value.problems if each.key == "lanes.local"]
    assert not any(each.reason.startswith("Value error") for each in caught.value.problems)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "\x7f", "\x85"])
def test_names_in_a_policy_follow_the_rules_for_names_in_events(name: str) -> None:
    lane = {"priority": 0, "min_tokens": 0, "max_tokens": 5}
    for strategy, table, content in (
        ("lanes", "lanes", lane),
        ("lanes", "kinds", {"order": 0}),
        ("categories", "categories", {"priority": 0, "budget_tokens": 5}),
        ("layers", "layers", {"priority": 0, "share_percent": 5}),
    ):
        raw = {"name": "x", "version": "1", "strategy": strategy}
        parse_policy(raw | {table: {"é" * 64: content}})
        with pytest.raises(PolicyError) as caught:
            parse_policy(raw | {table: {name: content}})
        assert {key.partition(".")[0] for key in keys(caught)} == {table}


@pytest.mark.parametrize(
    ("strategy", "key", "what", "table"),
    [
        ("lanes", "lanes", "lane", {"min_tokens": 0, "max_tokens": 9}),
        ("categories", "categories", "category", {"budget_tokens": 9}),
        ("layers", "layers", "layer", {"share_percent": 9}),
    ],
)
def test_equal_priorities_are_reported_with_the_first_holder(
    strategy: str, key: str, what: str, table: dict[str, int]
) -> None:
    priorities = {"a": 1, "b": 2, "c": 1, "d": 2, "e": 1, "f": -1, "g": -1}
    tables = {name: {"priority": priority, **table} for name, priority in priorities.items()}
    with pytest.raises(PolicyError) as caught:
        parse_policy({"name": "p", "version": "1", "strategy": strategy, key: tables})
    clashes = [each for each in caught.value.problems if each.reason.endswith("must differ")]
    assert clashes == [
        Problem(f"{key}.{name}.priority", f"{what} {first} has the same; priorities must differ")
        for name, first in (("c", "a"), ("d", "b"), ("e", "a"))
    ]


def test_a_number_out_of_bounds_is_reported_once() -> None:
    lane = {"priority": 0, "min_tokens": 2**53, "max_tokens": 5}
    with pytest.raises(PolicyError) as caught:
        lanes_policy(lanes={"local": lane})
    assert keys(caught) == ["lanes.local.min_tokens"]


def test_a_policy_without_a_beginning_holds_before_the_year_1() -> None:
    value = b'{"type":"context-request","request_id":"r","session_id":"s","requested_at":"%s"}'
    event = decode(value % b"0001-01-01T00:00:00+23:59", Bounds())
    assert isinstance(event, ContextRequest)
    event_us = event_time_us(event.requested_at)
    assert Catalogue([lanes_policy()]).resolve("test", event_us).name == "test"


def test_the_second_file_with_one_name_and_version_is_refused(tmp_path: Path) -> None:
    one, other = LANES.format(name="x", version="1"), LANES.format(name="x", version="2")
    files = written(tmp_path, a=one, b=other, c=one + "budget_tokens = 9000\n", d="d")
    policies, problems = load_policies(files)
    assert list(policies) == [str(files[0]), str(files[1])]
    assert [problem.key for problem in problems] == [f"{files[2]}: version", f"{files[3]}: file"]
    assert problems[0].reason.startswith(f"{files[0]} has the same name and version")


def test_a_file_that_is_given_twice_is_one_policy(tmp_path: Path) -> None:
    [file] = written(tmp_path, a=LANES.format(name="x", version="1"))
    policies, problems = load_policies([file, file])
    assert (list(policies), problems) == ([str(file)], ())


def test_a_folder_with_one_name_and_version_twice_is_refused_whole(tmp_path: Path) -> None:
    one = LANES.format(name="x", version="1")
    first, second = written(tmp_path, a=one, b=one)
    with pytest.raises(PolicyError) as caught:
        load_catalogue(tmp_path)
    assert str(caught.value).startswith(f"{second}: version: {first} has the same name and version")


def test_versions_of_a_folder_join_the_built_in_version_of_their_name(tmp_path: Path) -> None:
    later = LANES.format(name="lanes", version="2") + 'effective_from = "2027-01-01T00:00:00Z"\n'
    written(tmp_path, a=later)
    catalogue = load_catalogue(tmp_path)
    in_2026_us, in_2027_us = 1_767_225_600_000_000, 1_798_761_600_000_000
    assert [catalogue.resolve("lanes", at).version for at in (in_2026_us, in_2027_us)] == ["1", "2"]
    assert len(list(catalogue)) == len(list(load_catalogue(None))) + 1


def test_at_equal_times_a_folders_version_precedes_the_built_in_one(tmp_path: Path) -> None:
    written(tmp_path, a=LANES.format(name="lanes", version="0") + "budget_tokens = 9000\n")
    assert load_catalogue(tmp_path).resolve("lanes", 0).budget_tokens == 9_000


def test_a_folders_policy_replaces_a_built_in_one_of_its_name_and_version(tmp_path: Path) -> None:
    written(tmp_path, a=LANES.format(name="lanes", version="1") + "budget_tokens = 9000\n")
    catalogue = load_catalogue(tmp_path)
    assert [policy.budget_tokens for policy in catalogue if policy.name == "lanes"] == [9_000]
    assert catalogue.resolve("lanes", 0).budget_tokens == 9_000
