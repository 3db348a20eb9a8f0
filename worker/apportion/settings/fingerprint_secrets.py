"""Reading of the fingerprint secrets that the settings name; an error never shows a secret."""

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from apportion.core.event_time import event_time_us
from apportion.core.fingerprints import Secrets
from apportion.settings import Settings, SettingsError, read_secret, read_toml
from apportion.settings.value_types import FingerprintSecret

TenantName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class _TenantSecrets(BaseModel):
    """Secrets by tenant, and one for all other tenants."""

    model_config = ConfigDict(strict=True, extra="forbid")

    default: FingerprintSecret | None = None
    tenants: dict[TenantName, FingerprintSecret] = Field(default_factory=dict)


class _SecretFile(_TenantSecrets):
    """A `.toml` file of secrets; during a rotation also those for sessions that began before `since`."""

    since: AwareDatetime | None = None
    previous: _TenantSecrets | None = None


def read_secrets(settings: Settings) -> Secrets:
    """Return the secrets by tenant; empty if none is set.

    A `.toml` file has `[tenants]` with `NAME = "secret"`, and optionally `default = "secret"` above it. With
    `since` and a table `[previous]` of the same form, it also has the secrets before that moment; the
    other secrets did not change then. Any other file holds one secret for all tenants; surrounding white
    space is removed.

    Raises:
        SettingsError: the file cannot be read, or does not have that form.
    """
    if settings.fingerprint_secret:
        return Secrets(default=_bytes(settings.fingerprint_secret))
    path = settings.fingerprint_secret_file
    if path is None:
        return Secrets()
    return _read_tenant_secrets(path) if path.suffix == ".toml" else _read_single_secret(path)


def _read_single_secret(path: Path) -> Secrets:
    secret = read_secret("fingerprint_secret_file", path)
    try:
        return Secrets(default=_bytes(TypeAdapter[SecretStr](FingerprintSecret).validate_python(secret)))
    except ValidationError as error:
        [wrong] = error.errors()
        raise SettingsError([f"fingerprint_secret_file ({path}): {wrong['msg']}"]) from None


def _read_tenant_secrets(path: Path) -> Secrets:
    try:
        file = _SecretFile.model_validate(read_toml(path))
    except ValidationError as error:
        raise SettingsError(
            f"{'.'.join(map(str, detail['loc']))} ({path}): {detail['msg']}" for detail in error.errors()
        ) from None
    now = _secrets(file)
    if file.previous is None and file.since is None:
        return now
    if file.previous is None or file.since is None:
        lacking = "previous" if file.previous is None else "since"
        problem = (
            f"{lacking} ({path}): a rotation needs since, the moment, and [previous], the secrets before it"
        )
        raise SettingsError([problem])
    before = _secrets(file.previous)
    return Secrets(
        default=now.default,
        tenants=now.tenants,
        previous=Secrets(default=before.default or now.default, tenants={**now.tenants, **before.tenants}),
        since_us=event_time_us(file.since),
    )


def _secrets(table: _TenantSecrets) -> Secrets:
    return Secrets(
        default=_bytes(table.default) if table.default else None,
        tenants={tenant: _bytes(secret) for tenant, secret in table.tenants.items()},
    )


def _bytes(secret: SecretStr) -> bytes:
    return secret.get_secret_value().encode()
