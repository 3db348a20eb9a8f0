"""Composing without Kafka: its requirements, its messages about missing extras, and its loaded modules."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from support.composing import candidate
from support.recording import asked

ROOT = Path(__file__).parents[3]
OF_THE_WORKER = (
    "aiohttp",
    "aiokafka",
    "cramjam",
    "faust",
    "mode",
    "prometheus_client",
    "numpy",
    "sentencepiece",
    "splintr",
    "tokenizers",
    "tree_sitter",
)
BARE = f"""
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {OF_THE_WORKER}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from apportion.cli import main
main()
"""
LOADED = """
import contextlib, sys
from apportion.cli import main
with contextlib.suppress(SystemExit):
    main()
print("\\nloaded:", *sys.modules)
"""
CODE = candidate(
    "a",
    1_000,
    kind="symbol_context",
    language="python",
    content="def step():\n" + "    walk()\n" * 300,
)
ALL_PINNED = {"pinned": [{"match": {"type": "kind", "value": "symbol_context"}}]}
MODULES_MAX = 460
"""As many as `apportion compose` loads, and some for another Python. Each costs about half a millisecond."""
NOT_NEEDED = {
    *OF_THE_WORKER,
    "apportion.decisions.replay",
    "apportion.shell.stream",
    "asyncio",
    "toktok",
    "jsonschema_rs",
    "logging",
    "pydantic_settings",
    "rich",
    "tree_sitter",
    "yarl",
}


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _beside_some_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events").write_text(json.dumps(asked("r1")) + "\n", "utf-8")
    Path("policies").mkdir()
    shipped = (resources.files("apportion.engine.policies") / "lanes.toml").read_text("utf-8")
    own = shipped.replace('name = "lanes"', 'name = "estimated"').replace("o200k_base", "chars4")
    Path("policies/estimated.toml").write_text(own, "utf-8")


def ran(start: str, line: str) -> Ended:
    """Run a command line in an interpreter of its own that starts so."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "worker"),
        "APPORTION_POLICIES": "policies",
        "APPORTION_DEFAULT_POLICY": "estimated",
        "APPORTION_FINGERPRINT_SECRET": "a fixed secret for tests",
    }
    done = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", start, *line.split()],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_composing_works_without_the_workers_libraries() -> None:
    assert ran(BARE, "compose events --decisions decisions").exit_code == 0
    decision_id = json.loads(Path("decisions").read_bytes())["decision_id"]
    for line in (
        "verify events decisions",
        "replay events decisions --budget 10",
        f"explain {decision_id} --decisions decisions --candidate a --events events",
        "fingerprint src/auth.py",
        "policies check policies/estimated.toml",
        "policies list --offline",
        "config",
        "workload recorded -o workload",
    ):
        ended = ran(BARE, line)
        assert (ended.exit_code, ended.err) == (0, ""), line


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"query": "where?"}, "policies with [overlap] and requests with a query need numpy"),
        (
            {"candidates": [CODE], "budget_tokens": 100, "constraints": ALL_PINNED},
            "shorter forms of code need tree-sitter",
        ),
    ],
)
def test_a_composition_that_needs_an_absent_library_names_its_extra(changes: Any, missing: str) -> None:
    Path("events").write_text(json.dumps(asked("r1", **changes)) + "\n", "utf-8")
    ended = ran(BARE, "compose events")
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.startswith(
        f"apportion: missing_extra: {missing}, and it is not installed: run `pip install "
    )


@pytest.mark.parametrize(
    ("counter", "library"),
    [("qwen3", "splintr"), ("file:mine", "tokenizers"), ("file:pieces", "sentencepiece")],
)
def test_a_counter_that_needs_an_absent_library_names_its_extra(counter: str, library: str) -> None:
    Path("mine.json").write_text("{}", "utf-8")
    Path("pieces.model").write_bytes(b"")
    flags = "--counters mine=mine.json,pieces=pieces.model"
    ended = ran(BARE, f"count --counter {counter} {flags} events")
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err == (
        f"apportion: missing_extra: counts by {counter} need {library}, and it is not installed: "
        "run `pip install 'apportion[counters]'`\n"
    )


def test_the_library_works_without_them() -> None:
    code = BARE.partition("from")[0] + "from apportion import *; print(COUNTERS['o200k_base'].name)"
    assert ran(code, "") == Ended(0, "o200k_base\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "run",
        "gateway",
        "gateway --local",
        "send events",
        "send --wait events",
        "topics create",
        "topics check",
        "policies publish policies/estimated.toml",
        "policies list",
        "demo --default-policy lanes",
    ],
)
def test_a_command_names_its_missing_extra_and_how_to_install_it(line: str) -> None:
    ended = ran(BARE, line)
    assert (ended.exit_code, ended.out) == (2, "")
    [told] = ended.err.splitlines()
    assert told.startswith("apportion: missing_extra: this command talks to Kafka or serves HTTP, and ")
    assert "pip install 'apportion[worker]'" in told


@pytest.mark.parametrize("line", ["run --tracing", "gateway --local --tracing"])
def test_spans_need_opentelemetry_and_other_workers_do_not_load_it(line: str) -> None:
    code = """
import sys
from apportion.settings import Settings
from apportion.shell.stream.faust_app.app import create_app
create_app(Settings())
assert not any(name.startswith("opentelemetry") for name in sys.modules)
sys.modules["opentelemetry"] = None
from apportion.cli import main
main()
"""
    ended = ran(code, line)
    assert (ended.exit_code, ended.out) == (2, "")
    assert ended.err.endswith(
        "apportion: missing_extra: tracing is on, and opentelemetry is not installed: "
        "run `pip install 'apportion[otel]'`\n"
    )


def test_compose_loads_little() -> None:
    composed, _, modules = ran(LOADED, "compose events").out.partition("\nloaded:")
    assert json.loads(composed)["status"] == "composed"
    loaded = modules.split()
    assert not NOT_NEEDED.intersection(loaded)
    assert len(loaded) <= MODULES_MAX
