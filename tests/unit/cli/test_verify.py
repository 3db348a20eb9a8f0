"""`apportion verify` and `apportion fingerprint` as they are called."""

import json
import os
from pathlib import Path

import pytest
from support.commands import Ended, apportion
from support.composing import candidate
from support.recording import altered, asked

from apportion.core.fingerprints import key_id
from apportion.core.path_ids import path_id

SECRET = b"a fixed secret for tests"
OTHER = "another secret for tests"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def decisions() -> list[bytes]:
    """The output of `apportion compose` for three events, with one refused."""
    events = [asked("r1"), asked("r2", layers={}), asked("r3")]
    Path("events").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in events))
    apportion("compose", "events", "--decisions", "decisions", "--dead-letters", "letters")
    return Path("decisions").read_bytes().splitlines()


def verify(lines: list[bytes], *arguments: str) -> Ended:
    Path("decisions").write_bytes(b"".join(line + b"\n" for line in lines))
    return apportion("verify", "events", "decisions", *arguments)


def test_the_output_of_compose_is_verified(decisions: list[bytes]) -> None:
    ended = verify(decisions)
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out == b"2 decisions verified, 0 differences\n"


def test_an_empty_comparison_is_reported_and_is_no_failure(decisions: list[bytes]) -> None:
    assert decisions
    Path("events").write_bytes(b"")
    ended = verify([])
    assert (ended.exit_code, ended.out) == (0, b"0 decisions verified, 0 differences\n")
    assert ended.err.endswith("apportion: nothing was compared: there is no request and no decision\n")
    assert verify([], "--format", "json").err == ended.err


def test_events_and_decisions_may_come_through_a_pipe(decisions: list[bytes]) -> None:
    assert len(decisions) == 2
    ended = apportion("verify", "-", "decisions", stdin=Path("events").read_bytes())
    assert ended.exit_code == 0
    ended = apportion("verify", "events", "-", stdin=Path("decisions").read_bytes())
    assert ended.exit_code == 0


def test_dead_letters_are_compared_where_a_file_of_them_is_named(decisions: list[bytes]) -> None:
    ended = verify(decisions, "--dead-letters", "letters")
    assert ended.out == b"2 decisions verified, 1 dead letter verified, 0 differences\n"
    Path("letters").write_bytes(b"")
    ended = verify(decisions, "--dead-letters", "letters")
    assert ended.exit_code == 1
    assert ended.out.splitlines()[0] == b"dead_letters (event line 2): no_dead_letter"


def test_a_difference_exits_with_1_and_is_a_line(decisions: list[bytes]) -> None:
    first, second = decisions
    identity = json.loads(second)["decision_id"]
    ended = verify([first, altered(second, "tokens", "limit", value=1)])
    assert (ended.exit_code, ended.err) == (1, "")
    told, summary = ended.out.decode().splitlines()
    place = "$.tokens.limit: 1 recorded, 8000 composed"
    assert told == f"decisions line 2 (event line 3): difference at {place} [{identity}]"
    assert summary == "1 decision verified, 1 difference"


def test_unverifiable_decisions_exit_with_1(decisions: list[bytes]) -> None:
    ended = verify(decisions[:1])
    assert ended.exit_code == 1
    assert ended.out.decode().splitlines()[-1] == (
        "1 decision verified, 0 differences, 1 unverifiable (no_decision 1)"
    )


def test_json_has_a_line_for_each_finding_and_a_summary(decisions: list[bytes]) -> None:
    changed = [decisions[0], altered(decisions[1], "status", value="empty")]
    finding, summary = map(json.loads, verify(changed, "--format", "json").out.splitlines())
    assert finding == {
        "found": "difference",
        "log": "decisions",
        "line": 2,
        "event_line": 3,
        "decision_id": json.loads(decisions[1])["decision_id"],
        "place": "$.status",
        "recorded": "empty",
        "composed": "composed",
    }
    assert summary == {
        "verified": 1,
        "dead_letters": 0,
        "repeated": 0,
        "differences": 1,
        "unverifiable": {},
        "in_flight": 0,
    }


def test_a_table_has_a_row_for_each(decisions: list[bytes]) -> None:
    changed = [decisions[0], altered(decisions[1], "status", value="empty")]
    row, _ = verify(changed, "--format", "table").out.decode().splitlines()
    cells = row.split("\t")
    assert cells[:4] == ["decisions", "2", "3", "difference"]
    assert cells[5:] == ["$.status", '"empty"', '"composed"']


def test_a_log_cannot_write_control_characters_to_a_terminal(decisions: list[bytes]) -> None:
    ended = verify([altered(decisions[0], "\x1b[31m", value="\x1b[0m" * 100), decisions[1]])
    assert ended.exit_code == 1
    assert b"\x1b" not in ended.out
    assert max(map(len, ended.out.splitlines())) < 250


def test_a_file_that_is_not_there_or_given_twice_is_wrong_usage(decisions: list[bytes]) -> None:
    assert len(decisions) == 2
    assert apportion("verify", "events", "nowhere").exit_code == 2
    assert apportion("verify", "events", "events").exit_code == 2
    assert apportion("verify", "-", "-").exit_code == 2
    assert apportion("verify", "events").exit_code == 2
    assert apportion("verify", "events", "decisions", "--format", "xml").exit_code == 2


@pytest.mark.parametrize("held", ["full", "digest"])
def test_dead_letters_are_verified_by_their_value_or_digest(held: str) -> None:
    events = [asked("r1"), asked("r2", layers={})]
    Path("events").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in events))
    letters = ("--dead-letters", "letters")
    ended = apportion("compose", "events", "--decisions", "decisions", *letters, "--dead-letter-value", held)
    assert ended.exit_code == 3
    assert (json.loads(Path("letters").read_bytes())["value"] is None) == (held == "digest")
    ended = apportion("verify", "events", "decisions", *letters)
    assert (ended.exit_code, ended.err) == (0, "")


def fingerprint(*arguments: str) -> Ended:
    Path("secret").write_bytes(SECRET)
    return apportion("fingerprint", "--fingerprint-secret-file", "secret", *arguments)


def test_a_path_has_its_id_from_the_decisions() -> None:
    one = candidate("", id=None, path="./src/a.py", chunk_index=2)
    Path("secret").write_bytes(SECRET)
    event = json.dumps(asked("r1", candidates=[one])).encode()
    secret = ("--fingerprint-secret-file", "secret")
    apportion("compose", "--decisions", "decisions", *secret, stdin=event)
    [decision] = map(json.loads, Path("decisions").read_bytes().splitlines())
    flags = ("--kind", one["kind"], "--lane", one["lane"], "--chunk-index", "2")
    ended = fingerprint("src/a.py", *flags)
    assert ended.out.decode() == f"{decision['candidates'][0]['id']}\tsrc/a.py\n"


def test_each_path_has_a_line_in_order_and_in_canonical_form() -> None:
    ended = fingerprint("b/./c", "a")
    assert ended.exit_code == 0
    assert [line.split("\t") for line in ended.out.decode().splitlines()] == [
        [path_id(SECRET, path, "", "", 0), path] for path in ("b/c", "a")
    ]


def test_a_tenants_own_secret_counts() -> None:
    Path("secrets.toml").write_text(f'default = "{SECRET.decode()}"\n[tenants]\nown = "{OTHER}"\n')
    ended = apportion("fingerprint", "a", "--tenant", "own", "--fingerprint-secret-file", "secrets.toml")
    assert ended.out.decode() == f"{path_id(OTHER.encode(), 'a', '', '', 0)}\ta\n"


def test_during_a_rotation_a_path_has_a_line_for_each_secret() -> None:
    Path("secrets.toml").write_text(
        f'default = "{OTHER}"\nsince = 2026-03-01T00:00:00+01:00\n[previous]\ndefault = "{SECRET.decode()}"\n'
    )
    ended = apportion("fingerprint", "a", "b", "--fingerprint-secret-file", "secrets.toml")
    assert [line.split("\t") for line in ended.out.decode().splitlines()] == [
        [path_id(secret, path, "", "", 0), path, sessions, key_id(secret)]
        for path in ("a", "b")
        for secret, sessions in (
            (OTHER.encode(), "since 2026-02-28T23:00:00Z"),
            (SECRET, "before 2026-02-28T23:00:00Z"),
        )
    ]


def test_a_path_that_no_event_may_have_is_wrong_usage_and_not_repeated() -> None:
    ended = fingerprint("a", "/etc/private")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert "PATH 2: expected a relative POSIX path" in ended.err
    assert "private" not in ended.err


def test_without_a_secret_there_are_no_ids() -> None:
    ended = apportion("fingerprint", "a")
    assert (ended.exit_code, ended.out) == (2, b"")
    assert ended.err.startswith("apportion: no_secret: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["events"], "--from-topics"),
        (["events", "decisions", "--from-topics"], "not both"),
        (["events", "decisions", "--since", "2026-03-01T00:00:00Z"], "--from-topics"),
        (["events", "decisions", "--snapshot", "rows"], "--from-topics"),
        (["--from-topics", "--since", "yesterday"], "2026-03-01T12:00:00Z"),
        (["--from-topics", "--since", "2026-03-01T12:00:00"], "2026-03-01T12:00:00Z"),
        (["--from-topics", "--offsets", "1-2"], "PARTITION:FIRST-LAST"),
        (["--from-topics", "--offsets", "1:9-2"], "ends before it begins"),
        (["--from-topics", "--offsets", "1:0-", "--offsets", "1:5-"], "given twice"),
        (["--from-topics", "--snapshot", "missing"], "No such file"),
    ],
)
def test_wrong_arguments_are_refused_with_a_clear_message(arguments: list[str], told: str) -> None:
    ended = apportion("verify", *arguments)
    assert ended.exit_code == 2
    assert told in " ".join(ended.err.replace("│", "").split())
