"""The commands of the evaluation, their results and tables."""

import shutil
from pathlib import Path

import msgspec
import pytest
from benchmarks.retrieval.commands import app
from benchmarks.retrieval.results import Result, read_results
from benchmarks.retrieval.tables import complete, table
from typer.testing import CliRunner
from unit.retrieval.test_chats import asked, beam
from unit.retrieval.test_dialogues import question, written


def invoke(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


def test_stored_results_give_the_same_tables_as_the_run(tmp_path: Path) -> None:
    file, results = (
        written(tmp_path, question(), question(category=1), dialogues=4),
        tmp_path / "results.jsonl",
    )
    code, first, _ = invoke("locomo", file, "--limit", "20", "--results", results)
    assert code == 0
    assert "locomo: 2 cases" in first
    assert "multi-hop: 1 cases" in first
    assert "| whole turns | 20 | lead |" in first
    assert invoke("tables", results) == (0, first, "")


def test_the_same_data_give_the_same_results(tmp_path: Path) -> None:
    file = written(tmp_path, question(), dialogues=4)
    for name in ("a", "b"):
        assert invoke("locomo", file, "--results", tmp_path / name)[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("locomo", "nowhere.json"), "nowhere.json"),
        (
            ("locomo", "nowhere.json", "--method", "luck"),
            "no method 'luck'; there are: memory; lanes, query;",
        ),
        (("qmsum", "nowhere.jsonl"), "nowhere.jsonl"),
        (("beam", "nowhere"), "nowhere"),
        (("realtalk", "nowhere"), "nowhere"),
        (("contextbench", "nowhere.jsonl", "."), "nowhere.jsonl"),
        (("changes", "nowhere"), "no git repository here"),
        (("tables", "nowhere"), "nowhere"),
    ],
)
def test_data_that_cannot_be_read_end_the_command_with_2_and_a_line(
    arguments: tuple[str, ...], says: str
) -> None:
    code, _, error = invoke(*arguments)
    assert code == 2
    assert says in error


def test_a_line_that_is_no_result_is_refused_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_bytes(msgspec.json.encode(result()) + b"\n{}\n")
    code, _, error = invoke("tables", file)
    assert (code, f"{file}:2 is no result" in error) == (2, True)


def result(case: str = "1", method: str = "ours", share: float = 1.0) -> Result:
    return Result("changes", "jobs", case, "change", method, 100, 90, {"lines": share})


def test_a_table_has_paired_leads_of_the_first_method() -> None:
    results = [
        result(case, method, share)
        for case, shares in {"1": (1.0, 0.5), "2": (0.75, 0.25)}.items()
        for method, share in zip(("ours", "theirs"), shares, strict=True)
    ]
    *_, ours, theirs = table(results, "lines")
    assert ours == "| ours | 0.875 (0.75-1.00) |  |"
    assert theirs == "| theirs | 0.375 (0.25-0.50) | +0.500 [+0.50, +0.50] |"


def test_tables_can_be_told_by_group(tmp_path: Path) -> None:
    file, results = written(tmp_path, question(), dialogues=5), tmp_path / "results.jsonl"
    _, whole, _ = invoke("locomo", file, "--results", results)
    code, told, _ = invoke("tables", results, "--groups")
    assert code == 0
    assert told.startswith(whole)
    assert [line for line in told.splitlines() if line.endswith("conv: 1 cases")] == [
        "04 conv: 1 cases",
        "05 conv: 1 cases",
    ]


@pytest.mark.parametrize(("part", "cases"), [((), 1), (("--part", "tuning"), 2), (("--part", "first"), 3)])
def test_the_chats_of_each_part_of_beam(part: tuple[str, ...], cases: int, tmp_path: Path) -> None:
    made = beam(tmp_path, summarization=[asked([0])]) / "1"
    for number in range(2, 21):
        shutil.copytree(made, tmp_path / str(number))
        if number not in {5, 10, 20}:
            (tmp_path / str(number) / "probing_questions" / "probing_questions.json").write_text("{}")
    code, told, _ = invoke("beam", tmp_path, *part)
    assert (code, f"beam: {cases} cases" in told) == (0, True)


def test_the_last_case_of_a_stopped_run_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    results = [result("1"), result("1", "theirs"), result("2")]
    file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in results))
    assert complete(read_results(file)) == results[:2]
