import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apportion.core.event_time import event_time_us
from apportion.core.fingerprints import Secrets
from apportion.engine.assembly import create_engine
from apportion.settings import Settings, SettingsError, load_settings
from apportion.settings.fingerprint_secrets import read_secrets

REST, ACME, OLD_REST, OLD_ACME = (f"{name} of sixteen bytes" for name in ("one", "two", "three", "four"))
SINCE = event_time_us(datetime(2026, 12, 1, tzinfo=UTC))


def secrets_of(file: Path, content: str) -> Secrets:
    file.write_text(content)
    return read_secrets(Settings(fingerprint_secret_file=file))


def problems_of(file: Path, content: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        secrets_of(file, content)
    return caught.value.problems


def test_without_a_setting_there_is_no_secret() -> None:
    assert read_secrets(Settings()).of("acme", 0) is None


def test_the_secret_of_the_environment_is_every_tenants() -> None:
    settings = load_settings(environment={"APPORTION_FINGERPRINT_SECRET": REST})
    assert read_secrets(settings).of("acme", 0) == REST.encode()


def test_a_text_file_holds_one_secret_without_the_white_space_around_it(tmp_path: Path) -> None:
    secrets = secrets_of(tmp_path / "secret", f"  {REST}\n")
    assert secrets.of("acme", 0) == secrets.of("globex", 0) == REST.encode()


def test_a_toml_file_holds_a_secret_for_each_tenant_and_one_for_the_others(tmp_path: Path) -> None:
    secrets = secrets_of(
        tmp_path / "secrets.toml", f'default = "{REST}"\n[tenants]\nacme = "{ACME}"\n"b.c" = "{OLD_REST}"'
    )
    assert [secrets.of(tenant, 0) for tenant in ("acme", "b.c", "globex")] == [
        ACME.encode(),
        OLD_REST.encode(),
        REST.encode(),
    ]


def test_a_tenant_that_no_toml_file_names_has_no_secret(tmp_path: Path) -> None:
    assert secrets_of(tmp_path / "secrets.toml", f'[tenants]\nacme = "{ACME}"').of("globex", 0) is None


@pytest.mark.parametrize("name", ["secret", "secrets.toml"])
def test_a_file_that_changes_changes_no_engine_that_has_read_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    written = '[tenants]\nacme = "{}"' if file.suffix else "{}"
    file.write_text(written.format(REST))
    settings = Settings(fingerprint_secret_file=file)
    engine = create_engine(settings)
    for change in (lambda: file.write_text(written.format(ACME)), lambda: file.write_text(""), file.unlink):
        change()
        assert engine.secrets.of("acme", 0) == REST.encode(), "paths keep their ids while a worker lives"
    file.write_text(written.format(ACME))
    assert create_engine(settings).secrets.of("acme", 0) == ACME.encode()


def test_a_session_that_began_before_a_rotation_keeps_its_secret(tmp_path: Path) -> None:
    secrets = secrets_of(
        tmp_path / "secrets.toml",
        f'default = "{REST}"\nsince = 2026-12-01T01:00:00+01:00\n[tenants]\nacme = "{ACME}"\n'
        f'[previous]\ndefault = "{OLD_REST}"\n[previous.tenants]\nacme = "{OLD_ACME}"',
    )
    for start_us, acme, others in ((SINCE - 1, OLD_ACME, OLD_REST), (SINCE, ACME, REST)):
        assert secrets.of("acme", start_us) == acme.encode()
        assert secrets.of("globex", start_us) == others.encode()


def test_tenants_absent_from_previous_keep_their_secret(tmp_path: Path) -> None:
    now = f'default = "{REST}"\nsince = 2026-12-01T00:00:00Z\n[tenants]\nacme = "{ACME}"\n'
    of_others = secrets_of(tmp_path / "secrets.toml", f'{now}[previous]\ndefault = "{OLD_REST}"')
    of_acme = secrets_of(tmp_path / "secrets.toml", f'{now}[previous.tenants]\nacme = "{OLD_ACME}"')
    assert (of_others.of("acme", 0), of_others.of("globex", 0)) == (ACME.encode(), OLD_REST.encode())
    assert (of_acme.of("acme", 0), of_acme.of("globex", 0)) == (OLD_ACME.encode(), REST.encode())


@pytest.mark.parametrize(
    ("rotation", "lacking"),
    [("since = 2026-12-01T00:00:00Z", "previous"), (f'[previous]\ndefault = "{OLD_REST}"', "since")],
)
def test_a_rotation_needs_both_the_moment_and_the_secrets_before_it(
    rotation: str, lacking: str, tmp_path: Path
) -> None:
    [problem] = problems_of(tmp_path / "secrets.toml", f'default = "{REST}"\n{rotation}')
    assert problem.startswith(f"{lacking} (")


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("secret", "abc", "fingerprint_secret_file"),
        ("secret", "fifteen letters\n", "fingerprint_secret_file"),
        ("secrets.toml", 'default = "abc"', "default"),
        ("secrets.toml", '[previous.tenants]\nacme = "abc"', "previous.tenants.acme"),
    ],
)
def test_a_secret_has_at_least_16_bytes(name: str, content: str, place: str, tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path / name, content)
    assert problem.startswith(f"{place} (")
    assert "shorter than 16 bytes" in problem
    assert content.strip() not in problem


def test_bytes_are_counted_not_characters(tmp_path: Path) -> None:
    assert secrets_of(tmp_path / "secret", "\u00e9" * 8).of("acme", 0) == b"\xc3\xa9" * 8


def test_a_short_secret_of_the_environment_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={"APPORTION_FINGERPRINT_SECRET": "abc"})
    [problem] = caught.value.problems
    assert problem.startswith("fingerprint_secret (APPORTION_FINGERPRINT_SECRET): is shorter than 16 bytes")
    assert "abc" not in problem


def test_a_file_of_another_user_is_reported_with_owner_mode_and_our_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(REST)
    file.chmod(0o600)
    status = file.stat()

    def denied(*_: object, **__: object) -> str:  # tests may run as the superuser, which reads everything
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "read_text", denied)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(os, "getegid", lambda: 10001)
    with pytest.raises(SettingsError) as caught:
        read_secrets(Settings(fingerprint_secret_file=file))
    [problem] = caught.value.problems
    owner = f"{status.st_uid}:{status.st_gid}"
    assert problem == (
        f"{file}: cannot be read: Permission denied: its owner is {owner}, its mode 0600, "
        "and this process runs as 10001:10001: let this user read it"
    )


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('[tenants]\nacme = ""', "tenants.acme"),
        ("[tenants]\nacme = 31337", "tenants.acme"),
        ('[tenants]\n"a/b" = "hush, and sixteen bytes"', "tenants.a/b"),
        ('[tenant]\nacme = "hush"', "tenant"),
        ('secret = "hush"', "secret"),
        ('default = ["hush"]', "default"),
    ],
)
def test_problems_are_reported_by_key_and_place_never_by_value(
    content: str, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.toml"
    [problem] = problems_of(file, content)
    assert problem.startswith(place)
    assert str(file) in problem
    assert not any(secret in problem for secret in ("31337", "hush"))


@pytest.mark.parametrize("name", ["secret", "secret.toml"])
def test_a_file_of_secrets_must_be_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_secrets(Settings(fingerprint_secret_file=tmp_path / name))


def test_an_empty_file_holds_no_secret(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path / "secret", "\n")
    assert problem.endswith("is empty")
