"""Reading of the bearer tokens of a gateway's callers; an error never shows a token."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from apportion.settings import SettingsError, read_toml
from apportion.settings.fingerprint_secrets import TenantName

_TOKEN_MIN_CHARACTERS = 16


class TokenGrant(Struct, frozen=True):
    """The tenants for which the holder of a token may speak; `policies` are the allowed ones; None: all."""

    tenants: frozenset[str]
    policies: frozenset[str] | None


class _TokenTable(BaseModel):
    """A table of the file; its name is for people."""

    model_config = ConfigDict(strict=True, extra="forbid")

    token: Annotated[SecretStr, Field(min_length=_TOKEN_MIN_CHARACTERS)]
    tenants: Annotated[list[TenantName], Field(min_length=1)]
    policies: Annotated[list[str], Field(min_length=1)] | None = None


_tables = TypeAdapter(Annotated[dict[str, _TokenTable], Field(min_length=1)])


def read_tokens(path: Path) -> Mapping[bytes, TokenGrant]:
    """Return the grants by the SHA-256 digest of their token; raise SettingsError for a wrong file."""
    try:
        tables = _tables.validate_python(read_toml(path))
    except ValidationError as error:
        raise SettingsError(
            f"{'.'.join(map(str, detail['loc'])) or 'gateway_tokens_file'} ({path}): {detail['msg']}"
            for detail in error.errors()
        ) from None
    grants: dict[bytes, TokenGrant] = {}
    for name, table in tables.items():
        digest = token_digest(table.token.get_secret_value())
        if digest in grants:
            raise SettingsError(
                [f"{name}.token ({path}): another table has the same token; create a new one"]
            )
        policies = None if table.policies is None else frozenset(table.policies)
        grants[digest] = TokenGrant(frozenset(table.tenants), policies)
    return grants


def token_digest(token: str) -> bytes:
    """Return the digest under which a token's grant is found; a header may hold bytes that are not UTF-8."""
    return sha256(token.encode(errors="surrogateescape")).digest()
