"""The basis of equality: canonical JSON, rounding, ids, globs, paths, times."""

import tracemalloc
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.core import path_ids
from apportion.core.candidates.glob import Globs, Paths
from apportion.core.canonical import named
from apportion.core.canonical_json import canonical_json, canonical_json_of_any, thousandths
from apportion.core.digests import decision_id
from apportion.core.errors import EventError
from apportion.core.event_time import utc
from apportion.core.events import Candidate
from apportion.core.fingerprints import Secrets, fingerprint, key_id
from apportion.core.path_ids import long_path_id, normalised_path, path_id

texts = st.text(st.characters(codec="utf-8"))
ascii_keys = st.text(st.characters(max_codepoint=0x7F), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ascii_keys, inner, max_size=4),
    max_leaves=20,
)
any_keys = st.text(st.characters(codec="utf-8"), max_size=3)
free_values = st.recursive(
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_keys, inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_our_canonical_json_is_rfc_8785_for_our_values(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type] # any JSON value


@given(values | free_values)
def test_canonical_json_of_any_value_is_rfc_8785(value: object) -> None:
    assert canonical_json_of_any(value) == rfc8785.dumps(value)  # type: ignore[arg-type] # any JSON value


@given(st.floats(0, 1) | st.floats(0, 1e12) | st.integers(0, 10**14).map(lambda n: (n + 0.5) / 1000))
@example(16779006.4185)
@example(1073741.8235)
def test_rounding_is_half_up_from_the_shortest_decimal(number: float) -> None:
    exact = (Decimal(repr(number)) * 1000).to_integral_value(ROUND_HALF_UP)
    assert thousandths(number) == int(exact)


def test_numbers_just_below_a_half_in_binary_round_up() -> None:
    assert [thousandths(number) for number in (0.0045, 0.0005, 0.1235, 1.0005, 0, 1)] == [
        5,
        1,
        124,
        1001,
        0,
        1000,
    ]


def test_ids_from_paths_are_stable_and_hide_the_path() -> None:
    # printf '%s' src/auth.ts | openssl dgst -sha256 -hmac secret -binary | basenc --base64url | head -c 12
    assert fingerprint(b"secret", "src/auth.ts") == "vs1DwyCUG-c4"
    assert path_id(b"secret", "src/auth.ts", "local_diff", "local", 0) == "KZJHL-Za-yJJs0KiDlvAWs8Q"


def test_an_id_from_a_path_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(secret: bytes, text: str) -> str:
        made.append((secret, text))
        return fingerprint(secret, text)

    monkeypatch.setattr(path_ids, "fingerprint", counted)
    secrets = b"made once", b"made again", b"made once"
    assert len({path_id(secret, "src/a.py", "local_diff", "local", 0) for secret in secrets}) == 2
    assert made == [(b"made once", "src/a.py"), (b"made again", "src/a.py")]


def test_absent_fields_of_a_candidate_are_empty_in_its_id() -> None:
    assert named(Candidate(path="./a"), b"secret") == (path_id(b"secret", "a", "", "", 0), "a")


def test_secrets_do_not_show_themselves() -> None:
    secrets = Secrets(default=b"hush", tenants={"acme": b"hush"})
    assert "hush" not in f"{secrets!r} {secrets}"


def test_a_secret_is_named_by_a_digest_over_a_domain_and_it() -> None:
    assert key_id(b"secret") == sha256(b"apportion fingerprint key id\0secret").hexdigest()[:16]
    assert key_id(b"secret") != key_id(b"secret2")


@pytest.mark.parametrize(
    ("moment_us", "told"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1_767_225_600_000_001, "2026-01-01T00:00:00.000001+00:00"),
        (-62_135_596_800_000_001, "0001-01-01T00:00:00+00:00"),
        (253_402_300_800_000_000, "9999-12-31T23:59:59.999999+00:00"),
        (1 << 62, "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_a_time_is_written_in_utc_and_clamped_to_the_valid_range(moment_us: int, told: str) -> None:
    assert utc(moment_us) == datetime.fromisoformat(told)
    assert utc(moment_us).tzinfo is UTC


def test_a_decision_id_follows_from_tenant_session_start_sequence_and_request() -> None:
    # printf '%s' '["default","s",1767225600000,0,"r0"]' | sha256sum | head -c 32
    assert decision_id("default", "s", 1767225600000999, 0, "r0") == "ab2a4b7bd9f25a77f102e623d350a0b2"


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("./a", "a"),
        ("a//b", "a/b"),
        ("a/./b/", "a/b"),
        ("a/../b", "b"),
        ("..a", "..a"),
        ("ab:c", "ab:c"),
        ("a/C:", "a/C:"),
    ],
)
def test_paths_have_one_canonical_form(path: str, normal: str) -> None:
    assert normalised_path(path, ".path") == normal


def test_a_path_has_the_same_id_whether_it_is_remembered_or_not() -> None:
    arguments = (b"secret", "src/a.py", "kind", "lane", 1)
    assert path_id(*arguments) == long_path_id(*arguments)


def test_very_long_paths_are_not_cached() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            named(Candidate(path=f"./{number}/" + "x" * (1 << 20)), b"secret")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 << 20


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../up", "a/../../b", ".", "./", "a\0b"),
        *("secrets\\prod.txt", "a/b\\", "..\\up", "C:\\src\\a.py", "c:/src/a.py", "./C:/a", "C:a", "a/../Z:"),
    ],
)
def test_paths_outside_the_workspace_are_refused(path: str) -> None:
    with pytest.raises(EventError, match="invalid_path"):
        normalised_path(path, ".path")


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**/b", "src/b", True),
        ("src/**/b", "src/x/y/b", True),
        ("src/**/b", "src/x/c", False),
        ("?.py", "a.py", True),
        ("?.py", "/.py", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[]]", "]", True),
        ("[!]]", "a", True),
        ("[!]]", "]", False),
        ("./a", "a", True),
        ("**", ".hidden/x", True),
        ("A", "a", False),
    ],
)
def test_globs_mean_whole_paths(pattern: str, path: str, meant: bool) -> None:  # noqa: FBT001 - a table's column
    assert (path in Globs([(0, pattern, "$")]).match(Paths([path])).first) is meant


@pytest.mark.parametrize(
    "pattern", ["", "/a", "a//b", "a/..", "[a", "a**", "**b", "a/[!", "x[]", "x[!]", "[!]", "a\0"]
)
def test_invalid_globs_are_refused(pattern: str) -> None:
    with pytest.raises(EventError, match="invalid_pattern"):
        Globs([(0, pattern, "$")])
