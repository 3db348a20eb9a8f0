"""Golden sessions of every strategy, answered and refused, compared byte for byte.

README.md describes each session, and how to rewrite the files.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import process

from apportion.core.errors import ErrorCode
from apportion.core.results import Fidelity, Reason, Status
from apportion.core.shrink import SHRINK_BY_KIND, ShrinkStrategy
from apportion.core.strategies import STRATEGIES
from apportion.core.text.tokens import CounterName

HERE = Path(__file__).parent
SESSIONS = sorted(folder.name for folder in (HERE / "sessions").iterdir())
MADE = ("composed.jsonl", "decisions.jsonl", "dead-letters.jsonl")
REFUSED = 3
SETTINGS = {
    "APPORTION_POLICIES": str(HERE / "policies"),
    "APPORTION_FINGERPRINT_SECRET_FILE": str(HERE / "secrets.toml"),
    "APPORTION_DEFAULT_POLICY": "lanes",
}
OF_SESSION = {
    **{
        name: {"APPORTION_POLICIES": str(HERE / "sessions" / name / "policies")}
        for name in ("facts", "claude")
    },
    "refusals": {"APPORTION_EVENT_MAX_BYTES": "4000", "APPORTION_CANDIDATES_MAX": "20"},
}
"""Separate policies, because a refusal names all policies; small bounds, for small oversized events."""


def make(name: str, folder: Path, hash_seed: str) -> None:
    """Write the answers to a session's events into a folder."""
    composed, decisions, dead_letters = (folder / each for each in MADE)
    done = process(
        *("compose", HERE / "sessions" / name / "events.jsonl"),
        *("--decisions", decisions, "--dead-letters", dead_letters, "--force"),
        stdin=b"",
        **(SETTINGS | OF_SESSION.get(name, {})),
        PYTHONHASHSEED=hash_seed,
    )
    composed.write_bytes(done.out)
    assert done.exit_code == (REFUSED if dead_letters.read_bytes() else 0), done.err


@pytest.mark.parametrize("hash_seed", ["0", "1234"])
@pytest.mark.parametrize("name", SESSIONS)
def test_the_same_events_give_the_same_bytes(name: str, hash_seed: str, tmp_path: Path) -> None:
    make(name, tmp_path, hash_seed)
    for each in MADE:
        made, golden = ((folder / each).read_bytes() for folder in (tmp_path, HERE / "sessions" / name))
        assert made.split(b"\n") == golden.split(b"\n"), each


def lines(name: str, session: str = "*") -> Iterator[dict[str, Any]]:
    """Yield the lines of a file of every session, or of one."""
    for file in sorted(HERE.glob(f"sessions/{session}/{name}.jsonl")):
        for line in file.read_bytes().splitlines():
            yield json.loads(line)


def test_the_files_have_every_strategy_counter_status_fidelity_and_reason() -> None:
    composed, decisions = list(lines("composed")), list(lines("decisions"))
    entries = [entry for decision in decisions for entry in decision.get("candidates", ())]
    assert {message["policy"]["strategy"] for message in composed} == set(STRATEGIES)
    assert {message["tokens"]["counter"] for message in composed if message["tokens"]["used"]} == set(
        CounterName
    )
    assert {message["status"] for message in composed} == set(Status)
    assert {item["fidelity"] for message in composed for item in message["items"]} == set(Fidelity)
    assert {entry["reason"] for entry in entries if "reason" in entry} == set(Reason)
    assert any(decision.get("evicted") for decision in decisions)
    assert any("shortfall" in group for decision in decisions for group in decision.get("groups", ()))


def test_the_files_have_every_shrink_strategy_under_both_sorts_of_counter() -> None:
    asked = {
        (event["request_id"], candidate["id"]): candidate.get("shrink") or SHRINK_BY_KIND[candidate["kind"]]
        for event in lines("events", "shrinking")
        for candidate in event["candidates"]
    }
    assert set(asked.values()) == set(ShrinkStrategy)
    for estimated in (False, True):
        shrunk = {
            asked[line["request_id"], item["id"]]
            for line in lines("composed", "shrinking")
            for item in line["items"]
            if item["fidelity"] == "shrunk" and line["tokens"]["counter"].endswith("_base") is not estimated
        }
        assert shrunk == set(ShrinkStrategy) - {"never"}


def test_the_files_have_every_error_code_of_the_command() -> None:
    of_topics = {
        *("wrong_key", "wrong_partition", "too_late", "in_future"),
        *("invalid_policy", "policy_changed", "event_failed", "unreadable_record"),
    }
    told = {line["error"]["code"] for line in lines("dead-letters")}
    assert told == set(ErrorCode) - of_topics - {"unknown_counter"}  # of the settings, which differ here


@pytest.mark.parametrize("name", SESSIONS)
def test_every_decision_and_dead_letter_of_a_session_is_verified(name: str) -> None:
    events, decisions, letters = (
        HERE / "sessions" / name / each for each in ("events.jsonl", "decisions.jsonl", "dead-letters.jsonl")
    )
    done = process(
        *("verify", events, decisions, "--dead-letters", letters, "--format", "json"),
        stdin=b"",
        **(SETTINGS | OF_SESSION.get(name, {})),
    )
    assert (done.exit_code, done.err) == (0, "")
    summary = json.loads(done.out)
    assert summary["verified"] == len(decisions.read_bytes().splitlines())
    assert summary["dead_letters"] == len(letters.read_bytes().splitlines())


def test_the_readme_describes_each_session() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    assert [name for name in SESSIONS if f"| `{name}` |" not in readme] == []


if __name__ == "__main__":
    for session in SESSIONS:
        with tempfile.TemporaryDirectory() as temporary:
            make(session, Path(temporary), "0")
            for file in MADE:
                shutil.copy(Path(temporary) / file, HERE / "sessions" / session / file)
