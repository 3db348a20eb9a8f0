"""The way from 0.4.0 to this version and back, over the rows of sessions in the changelog.

`upgrade/recorded.json` is what 0.4.0 did: it answered `before.jsonl`; it was given `new.jsonl`, where each
event of a new session has one field that it does not know; and it continued with `after.jsonl` on the rows
that this version writes for those.

`PYTHONPATH=worker:tests python tests/golden/test_golden_upgrade.py` records it again, from git's history.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from golden.upgrade.versions import answer

from apportion.core.canonical_json import canonical_json
from apportion.core.digests import digest

HERE = Path(__file__).parent / "upgrade"
ROOT = HERE.parents[2]
COMMIT_OF_0_4_0 = "b43ccb65296f74da19beead816bd1336129825f0"
MODULES_OF_0_4_0 = {
    "core.canonical_json": "core.identity",
    "core.digests": "core.identity",
    "engine.policies": "policies",
    "shell.stream": "stream",
}
ENDS = "ends: ValidationError"


def events(name: str) -> list[Any]:
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


BEFORE, NEW, AFTER = map(events, ("before", "new", "after"))
RECORDED = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))


def upgraded() -> dict[str, list[Any]]:
    """Return this version's results for the new events, with the changelog of 0.4.0."""
    return answer(RECORDED["before"]["changelog"], NEW, len(BEFORE))


def is_refused(outcome: str | None) -> bool:
    return outcome is not None and not outcome.startswith("sha256:")


def test_this_version_gives_the_answers_and_rows_of_0_4_0_byte_for_byte() -> None:
    assert answer([], BEFORE, 0) == RECORDED["before"]


def test_this_version_continues_rows_of_0_4_0_and_takes_every_new_field() -> None:
    outcomes, by_old = upgraded()["outcomes"], RECORDED["new"]
    assert not any(map(is_refused, outcomes))
    taken = [(old, new) for old, new in zip(by_old, outcomes, strict=True) if not is_refused(old)]
    assert [old for old, _ in taken] == [new for _, new in taken]


def test_0_4_0_continues_the_rows_that_this_version_writes_or_ends_as_documented() -> None:
    changelog = upgraded()["changelog"]
    assert digest(canonical_json(changelog)) == RECORDED["changelog"], "0.4.0 was recorded over other rows"
    outcomes, by_old = answer(changelog, AFTER, len(BEFORE) + len(NEW))["outcomes"], RECORDED["after"]
    differing = {old for old, new in zip(by_old, outcomes, strict=True) if old != new}
    assert differing == {ENDS}


def test_the_page_on_upgrades_says_what_0_4_0_does_with_each_new_field() -> None:
    page = (ROOT / "docs" / "operations" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (\w+) \| (continues|ends) \|$", page.replace("`", ""), re.MULTILINE)
    sessions = [line["session_id"] for line in AFTER]
    continued = dict(zip(sessions, RECORDED["after"], strict=True))
    entries = [(field, code, then) for fields, code, then in rows for field in fields.split(", ")]
    for field, code, then in entries:
        assert ("ends" if continued[field] == ENDS else "continues") == then, field
        assert code == RECORDED["new"][[line["session_id"] for line in NEW].index(field)]
    assert {field for field, *_ in entries} == set(sessions) - {line["session_id"] for line in BEFORE}


def by_0_4_0(folder: Path, records: list[Any], lines: list[Any], first_offset: int) -> dict[str, list[Any]]:
    program = (HERE / "versions.py").read_text(encoding="utf-8")
    for module, old in MODULES_OF_0_4_0.items():
        program = program.replace(f"apportion.{module}", f"apportion.{old}")
    given = {"records": records, "events": lines, "first_offset": first_offset}
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", program],
        input=json.dumps(given).encode(),
        env={"PYTHONPATH": str(folder / "worker")},
        capture_output=True,
        check=True,
    )
    made: dict[str, list[Any]] = json.loads(done.stdout)
    return made


def record(folder: Path) -> None:
    """Write the results of the version in a folder."""
    before = by_0_4_0(folder, [], BEFORE, 0)
    changelog = answer(before["changelog"], NEW, len(BEFORE))["changelog"]
    recorded = {
        "before": before,
        "new": by_0_4_0(folder, before["changelog"], NEW, len(BEFORE))["outcomes"],
        "changelog": digest(canonical_json(changelog)),
        "after": by_0_4_0(folder, changelog, AFTER, len(BEFORE) + len(NEW))["outcomes"],
    }
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory() as temporary:
        old = Path(temporary) / "0.4.0"
        subprocess.run([git, "-C", ROOT, "worktree", "add", "--detach", old, COMMIT_OF_0_4_0], check=True)  # noqa: S603
        try:
            record(old)
        finally:
            subprocess.run([git, "-C", ROOT, "worktree", "remove", "--force", old], check=True)  # noqa: S603
