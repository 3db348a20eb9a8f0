"""Calibration: a row learned from a simulated provider's counts covers later requests at a small margin."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.asking import asked
from support.commands import Ended, apportion
from support.composing import ENGINE, answer
from support.simulated_provider import chat, provider_count

from apportion import COUNTERS
from apportion.core.compose import Answered
from apportion.core.models import Model, Models
from apportion.core.strategies import parse_policy
from apportion.core.wire.codec import encode
from apportion.decisions.analytics.files import sink_lines
from apportion.decisions.analytics.store import Store
from apportion.engine.models import load_models

LEARNED, LATER = 200, 1_000
POLICY = """
name = "chat"
version = "1"
strategy = "conversation"
counter = "model"
budget_tokens = 60_000
[conversation]
system_tokens = 8_000
messages_tokens = 44_000
response_tokens = 8_000
"""
WHOLE = """
name = "whole"
version = "1"
strategy = "request"
counter = "model"
budget_tokens = 60_000
response_tokens = 2_000
"""
BASE = """
version = "1"
[[models]]
name = "guest"
names = ["guest*"]
provider = "guest"
counter = "o200k_base"
"""


def tools_of(number: int) -> dict[str, Any]:
    """Return the fields of a request with 0 to 12 tools and some candidates."""
    names = [f"tool_{index} {number}" for index in range(number * 7 % 13)]
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "The path."}}}
    tools = [{"name": name, "description": f"{name} reads. " * 9, "input_schema": schema} for name in names]
    scores = {"relevance": 0, "specificity": 0, "risk_alignment": 0, "recency_bucket": 0}
    own = {"kind": "semantic_match", "lane": "retrieved", "content": f"{number} pages " * 200, **scores}
    return {"tools": tools, "candidates": [{"id": "a", **own}] * (number % 2)}


def composed(number: int, models: Models, policy: str = POLICY) -> Answered:
    fields = tools_of(number) if policy == WHOLE else {}
    request = asked(conversation=chat(number), model="guest-1", request_id=f"r{number}", **fields)
    return answer(request, parse_policy(tomllib.loads(policy)), engine=replace(ENGINE, models=models))


def counted(outcome: Answered) -> int:
    """Return the provider's count: definitions cost their JSON and fixed tokens."""
    tools = outcome.composed.tools or ()
    jsons = [json.dumps(tool, sort_keys=True) for tool in tools]
    fixed = 5 * len(tools) + 804 * bool(tools)
    return provider_count(outcome.composed) + sum(map(COUNTERS["claude-4.7"].count, jsons)) + fixed


def usage(outcome: Answered, number: int) -> bytes:
    event = {
        "type": "context-usage",
        "request_id": f"r{number}",
        "session_id": "s",
        "used_at": f"2026-03-{1 + number % LEARNED // 20:02}T12:00:00Z",
        "gen_ai.request.model": "guest-1",
        "gen_ai.usage.input_tokens": counted(outcome),
    }
    return json.dumps(event).encode()


def write_tables(folder: Path, events: int, base: str = BASE, first: int = 0, policy: str = POLICY) -> None:
    (folder / "policies").mkdir()
    (folder / "policies/own.toml").write_text(policy)
    (folder / "base.toml").write_text(base)
    models = load_models(folder / "base.toml")
    numbers = range(first, first + events)
    outcomes = [composed(number, models, policy) for number in numbers]
    lines = [encode(outcome.decision) for outcome in outcomes]
    lines += [usage(outcome, number) for outcome, number in zip(outcomes, numbers, strict=True)]
    sink_lines(Store(str(folder / "tables")), "t", lines, 64 << 20, lambda _: None)


def calibrated(folder: Path, output: str = "models.toml", *more: str) -> Ended:
    settings = ("--models-file", folder / "base.toml", "--policies", folder / "policies")
    tables = folder / "tables"
    return apportion("calibrate", tables, "--model", "guest-1", "-o", folder / output, *settings, *more)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration")
    write_tables(folder, LEARNED)
    ended = calibrated(folder)
    assert (ended.exit_code, ended.err) == (0, "")
    return folder


def row_of(path: Path) -> Model:
    return load_models(path).row("guest-1", "$")


def test_a_row_learned_from_200_events_covers_later_requests_at_a_small_margin(learned: Path) -> None:
    models = load_models(learned / "models.toml")
    outcomes = [composed(number, models) for number in range(LEARNED, LEARNED + LATER)]
    counts = [(outcome.composed.tokens.used, provider_count(outcome.composed)) for outcome in outcomes]
    assert sum(used < counted for used, counted in counts) <= LATER // 100
    assert sum(used / counted - 1 for used, counted in counts) / LATER <= 0.045
    assert all(outcome.composed.tokens.used <= 60_000 for outcome in outcomes)
    assert {outcome.decision.model for outcome in outcomes} == {row_of(learned / "models.toml").ref}


def test_whole_requests_are_learned_with_their_tools_and_material(tmp_path: Path) -> None:
    write_tables(tmp_path, LEARNED, policy=WHOLE)
    assert calibrated(tmp_path).exit_code == 0
    models = load_models(tmp_path / "models.toml")
    outcomes = [composed(number, models, WHOLE) for number in range(LEARNED, 2 * LEARNED)]
    counts = [(outcome.composed.tokens.used, counted(outcome)) for outcome in outcomes]
    assert sum(used < provided for used, provided in counts) <= LEARNED // 100
    assert sum(used / provided - 1 for used, provided in counts) / LEARNED <= 0.045
    assert 600 <= row_of(tmp_path / "models.toml").frame.tools <= 1_000


def test_the_row_keeps_the_model_and_names_its_events(learned: Path) -> None:
    row, base = row_of(learned / "models.toml"), row_of(learned / "base.toml")
    assert (row.name, row.names, row.counter) == (base.name, base.names, base.counter)
    assert row.source == "calibrated on 200 events, 2026-03-10"
    assert row.table == "calibrated-2026-03-10"
    assert row.scale is not None
    assert row.scale.media == row.scale.json > row.scale.text > 1_400
    assert row.digest != base.digest


def test_the_same_tables_give_the_same_file_and_figures(learned: Path) -> None:
    ended = calibrated(learned, "again.toml", "--metrics", str(learned / "metrics.prom"))
    assert (learned / "again.toml").read_bytes() == (learned / "models.toml").read_bytes()
    decisions, fitted, held_out, _ = ended.out.decode().splitlines()
    assert decisions.startswith("decisions  200 requests, 100.0% under, mean margin -3")
    assert fitted.startswith("learned    157 requests, ")
    assert held_out.startswith("held out   43 requests, ")
    assert 'apportion_provider_under_requests{model="guest"} 200\n' in (learned / "metrics.prom").read_text()
    assert calibrated(learned, "again.toml").exit_code == 2  # the file exists


def test_decisions_of_a_calibrated_row_calibrate_it_again(learned: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, LEARNED, (learned / "models.toml").read_text())
    ended = calibrated(tmp_path)
    assert (ended.exit_code, ended.err) == (0, "")
    before, after = row_of(learned / "models.toml").scale, row_of(tmp_path / "models.toml").scale
    assert before is not None
    assert after is not None
    assert abs(after.text / before.text - 1) < 0.02
    assert abs(after.json / before.json - 1) < 0.02


def test_fewer_than_50_events_and_foreign_decisions_are_refused(tmp_path: Path) -> None:
    write_tables(tmp_path, 49)
    ended = calibrated(tmp_path)
    assert ended.exit_code == 2
    assert ended.err.startswith("apportion: too_few_events: 49 usage events of guest have a decision, 50 are")
    assert not (tmp_path / "models.toml").exists()
    (tmp_path / "base.toml").write_text(BASE + "frame = {message = 3}\n")
    ended = calibrated(tmp_path)
    assert "0 usage events" in ended.err
    assert "49 decisions by another row of the model" in ended.err
