"""The types of the settings' values.

A value from the settings file keeps its type: `"4"` is no number. Paths and enums are strings in the file,
and are converted.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError


class Partitioner(StrEnum):
    """The hash from a key to a partition. A record in another partition is a dead letter."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    ANY = "any"


class Guarantee(StrEnum):
    """The delivery guarantee of a worker's outputs after failures."""

    EFFECTIVELY_ONCE = "effectively_once"
    EXACTLY_ONCE = "exactly_once"


class Compression(StrEnum):
    """The compression of record batches, by Kafka's names."""

    NONE = "none"
    GZIP = "gzip"
    LZ4 = "lz4"
    ZSTD = "zstd"


class LogFormat(StrEnum):
    """The format of a worker's log."""

    TEXT = "text"
    JSON = "json"


class SecurityProtocol(StrEnum):
    """The protocol of a broker's listener, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted, and the broker presents a certificate."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a client logs in."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(StrEnum):
    """The login mechanism of a client, by Kafka's names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


def _split(value: Any) -> Any:
    """Return a list as a tuple, as strict validation requires; a string is split at its commas."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    return tuple(parts) if isinstance(parts, list) else parts


def _listed(value: Any) -> Any:
    """Return a table of the file as a tuple of `key=value`; another value stays."""
    return tuple([f"{key}={part}" for key, part in value.items()]) if isinstance(value, dict) else value


def _at_least_one(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not addresses:
        raise PydanticCustomError("empty", "expected at least one")
    return addresses


def _matches(pattern: str, expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            raise PydanticCustomError("pattern", "expected {expected}", {"expected": expected})
        return value

    return AfterValidator(check)


_PORT = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
_ADDRESS = rf"(\[[\da-fA-F:.%]+\]|[\w.-]+):{_PORT}"
Address = Annotated[str, _matches(_ADDRESS, "host:port, as in localhost:9092")]
Addresses = Annotated[tuple[Address, ...], BeforeValidator(_split), AfterValidator(_at_least_one)]
_URL = rf"https?://(\[[\da-fA-F:.]+\]|[\w.-]+)(:{_PORT})?(/[\w./~-]*)?"
OptionalUrl = Annotated[str, _matches(_URL, "a URL, as in https://registry:8081")] | None
_HEADER = r"(?!(?:content-type|ce_.*|__value_schema_id|traceparent|tracestate|apportion-caller)$)[\w.-]{1,64}"
ReplyHeader = Annotated[
    str, _matches(f"(?i:{_HEADER})", "1 to 64 of A-Z a-z 0-9 . _ -, and no header that answers have anyway")
]
ReplyHeaders = Annotated[tuple[ReplyHeader, ...], BeforeValidator(_split), Field(max_length=16)]
_FILE = r"[A-Za-z0-9._-]{1,64}=.+"
CounterFile = Annotated[str, _matches(_FILE, "NAME=path, with a name of 1 to 64 of A-Z a-z 0-9 . _ -")]
CounterFiles = Annotated[tuple[CounterFile, ...], BeforeValidator(_listed), BeforeValidator(_split)]
TopicName = Annotated[str, _matches(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}", "1 to 249 of A-Z a-z 0-9 . _ -")]
TopicPrefix = Annotated[str, _matches(r"[a-zA-Z0-9._-]{0,200}", "up to 200 of A-Z a-z 0-9 . _ -")]
AppId = Annotated[str, _matches(r"[a-zA-Z0-9._-]{1,200}", "1 to 200 of A-Z a-z 0-9 . _ -")]
OptionalPath = Annotated[Path, Field(strict=False)] | None
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
OptionalText = Annotated[str, Field(min_length=1)] | None
OptionalSecret = Annotated[SecretStr, Field(min_length=1)] | None


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode()) < FINGERPRINT_SECRET_MIN_BYTES:
        raise PydanticCustomError("short", _TOO_SHORT, {"least": FINGERPRINT_SECRET_MIN_BYTES})
    return secret


FINGERPRINT_SECRET_MIN_BYTES = 16
"""At least 16 bytes, so that a secret can hold 128 bits. A shorter secret can be brute-forced by anyone with
decisions and one known path."""
_TOO_SHORT = (
    "is shorter than {least} bytes, so it could be guessed from decisions: use `openssl rand -hex 32`"
)
FingerprintSecret = Annotated[SecretStr, AfterValidator(_long_enough)]
OptionalFingerprintSecret = FingerprintSecret | None
