from pathlib import Path

import pytest

from apportion.core.identity import Secrets
from apportion.fingerprint_secrets import read_secrets
from apportion.settings import Settings, SettingsError, load_settings


def secrets_of(file: Path, content: str) -> Secrets:
    file.write_text(content)
    return read_secrets(Settings(fingerprint_secret_file=file))


def problems_of(file: Path, content: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        secrets_of(file, content)
    return caught.value.problems


def test_without_a_setting_there_is_no_secret() -> None:
    assert read_secrets(Settings()).of("acme") is None


def test_the_secret_of_the_environment_is_every_tenants() -> None:
    settings = load_settings(environment={"APPORTION_FINGERPRINT_SECRET": "hush"})
    assert read_secrets(settings).of("acme") == b"hush"


def test_a_text_file_holds_one_secret_without_the_white_space_around_it(tmp_path: Path) -> None:
    secrets = secrets_of(tmp_path / "secret", "  two words\n")
    assert secrets.of("acme") == secrets.of("globex") == b"two words"


def test_a_toml_file_holds_a_secret_for_each_tenant_and_one_for_the_others(tmp_path: Path) -> None:
    secrets = secrets_of(tmp_path / "secrets.toml", 'default = "rest"\n[tenants]\nacme = "a"\n"b.c" = "bc"')
    assert [secrets.of(tenant) for tenant in ("acme", "b.c", "globex")] == [b"a", b"bc", b"rest"]


def test_a_tenant_that_no_toml_file_names_has_no_secret(tmp_path: Path) -> None:
    assert secrets_of(tmp_path / "secrets.toml", '[tenants]\nacme = "a"').of("globex") is None


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('[tenants]\nacme = ""', "tenants.acme"),
        ("[tenants]\nacme = 31337", "tenants.acme"),
        ('[tenants]\n"a/b" = "hush"', "tenants.a/b"),
        ('[tenant]\nacme = "hush"', "tenant"),
        ('secret = "hush"', "secret"),
        ('default = ["hush"]', "default"),
    ],
)
def test_what_is_wrong_is_told_by_its_key_and_place_and_never_by_its_value(
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
