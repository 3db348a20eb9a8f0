"""Fingerprint secrets, and the keyed digests made with them.

Secrets are always passed in.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

from apportion.core.canonical_json import canonical_json
from apportion.core.lru import process_wide


class Secrets(msgspec.Struct, frozen=True):
    """The fingerprint secrets: one for each tenant that has its own, and one for all other tenants.

    A session keeps the secret that it began with, so that its ids stay valid. After a rotation, sessions that
    began before `since_us` (microseconds since 1970) use `previous`.
    """

    default: bytes | None = None
    tenants: Mapping[str, bytes] = {}
    previous: "Secrets | None" = None
    since_us: int = 0

    def of(self, tenant: str, start_us: int) -> bytes | None:
        """Return the secret of a tenant's session that began at `start_us`, or None if there is none."""
        if self.previous is not None and start_us < self.since_us:
            return self.previous.of(tenant, start_us)
        return self.tenants.get(tenant, self.default)

    def key_ids(self, tenant: str) -> frozenset[str]:
        """Return the `key_id` of each secret that sessions of a tenant may use."""
        earlier = self.previous.key_ids(tenant) if self.previous is not None else frozenset()
        secret = self.tenants.get(tenant, self.default)
        return earlier if secret is None else earlier | {key_id(secret)}

    def __repr__(self) -> str:
        return "Secrets(…)"


_KEY_ID_DOMAIN = b"apportion fingerprint key id\0"
_SECRETS_MAX = 1 << 10


@process_wide(_SECRETS_MAX)
def key_id(secret: bytes) -> str:
    """Return the 16 hex digits that name a fingerprint secret: SHA-256 of a domain and the secret, cut."""
    return hashlib.sha256(_KEY_ID_DOMAIN + secret).hexdigest()[:16]


_MARKS_DOMAIN = b"apportion marks\0"
_MARK_BYTES = 8


def marking_key(secret: bytes, tenant: str, session_id: str, start_us: int) -> bytes:
    """Return the key of a session's marks, from its secret, tenant, id and start in milliseconds."""
    session = canonical_json([tenant, session_id, start_us // 1000])
    return hmac.digest(secret, _MARKS_DOMAIN + session, "sha256")


def mark(key: bytes, item: Sequence[str]) -> str:
    """Return the 16 hex digits that mark an item: the start of an HMAC-SHA-256 over the item's names."""
    return hmac.digest(key, canonical_json(item), "sha256")[:_MARK_BYTES].hex()


def fingerprint(secret: bytes, text: str) -> str:
    """Return 12 characters that only holders of the secret can link to the path or workspace."""
    mac = hmac.digest(secret, text.encode(), "sha256")
    return base64.urlsafe_b64encode(mac)[:12].decode()
