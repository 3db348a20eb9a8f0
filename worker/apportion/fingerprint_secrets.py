"""The fingerprint secrets, read from where the settings say.

Decides the form of the secret file. Never shows a secret: what is wrong is told by key and place.
"""

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from apportion.core.identity import Secrets
from apportion.settings import Settings, SettingsError, read_text, read_toml

_Secret: TypeAlias = Annotated[SecretStr, Field(min_length=1)]
_Tenant: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class _SecretFile(BaseModel):
    """A `.toml` file of secrets: one a tenant, and one for all tenants that are not named."""

    model_config = ConfigDict(strict=True, extra="forbid")

    default: _Secret | None = None
    tenants: dict[_Tenant, _Secret] = Field(default_factory=dict)


def read_secrets(settings: Settings) -> Secrets:
    """Return the secrets by tenant; none where none is set.

    A `.toml` file has `[tenants]` with `NAME = "secret"`, and optionally `default = "secret"` above it.
    Any other file is one secret for all tenants, without the white space around it.

    Raises:
        SettingsError: the file cannot be read, or does not have that form.
    """
    if settings.fingerprint_secret:
        return Secrets(default=_bytes(settings.fingerprint_secret))
    path = settings.fingerprint_secret_file
    if path is None:
        return Secrets()
    if path.suffix == ".toml":
        return _of_tenants(path)
    secret = read_text(path).strip()
    if not secret:
        raise SettingsError([f"fingerprint_secret_file ({path}): is empty"])
    return Secrets(default=secret.encode())


def _of_tenants(path: Path) -> Secrets:
    try:
        file = _SecretFile.model_validate(read_toml(path))
    except ValidationError as error:
        raise SettingsError(
            f"{'.'.join(map(str, detail['loc']))} ({path}): {detail['msg']}" for detail in error.errors()
        ) from None
    return Secrets(
        default=_bytes(file.default) if file.default else None,
        tenants={tenant: _bytes(secret) for tenant, secret in file.tenants.items()},
    )


def _bytes(secret: SecretStr) -> bytes:
    return secret.get_secret_value().encode()
