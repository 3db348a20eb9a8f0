"""In-memory artifacts of the sessions of one partition, encoded as in the changelog."""

from collections.abc import Iterable, Mapping, Sequence

from apportion.core.session.pool import Pooled
from apportion.shell.stream.state.row_format import (
    NO_HEADERS,
    Row,
    StateRecord,
    artifact_key,
    decode_artifact,
    encode_artifact,
)

_NONE: dict[bytes, bytes] = {}


class Artifacts:
    """Encoded artifacts by session key, then by name."""

    def __init__(self) -> None:
        self._artifacts: dict[bytes, dict[bytes, bytes]] = {}

    @property
    def size_bytes(self) -> int:
        """Total bytes of the artifacts; each call visits all of them."""
        return sum([len(value) for artifacts in self._artifacts.values() for value in artifacts.values()])

    def by_name(self, key: bytes) -> Mapping[bytes, bytes]:
        """Return a session's artifacts by name; `remove_all` leaves the returned mapping unchanged."""
        return self._artifacts.get(key, _NONE)

    def decoded(self, key: bytes, names: Sequence[bytes]) -> tuple[Pooled, ...]:
        """Return a session's artifacts of these names, decoded, in order; all of them must be known."""
        return tuple([decode_artifact(self._artifacts[key][name]) for name in names])

    def records(self, key: bytes, names: Iterable[bytes]) -> list[StateRecord]:
        """Return the changelog records of a session's artifacts of these names."""
        return [(artifact_key(key, name), self._artifacts[key][name], NO_HEADERS) for name in names]

    def change(self, key: bytes, row: Row) -> tuple[list[StateRecord], list[StateRecord]]:
        """Store exactly the artifacts of a row; return the records to write before the row, and after it."""
        if not (row.artifacts or key in self._artifacts):
            return [], []
        artifacts = self._artifacts.setdefault(key, {})
        new: list[StateRecord] = []
        for name, artifact in zip(row.artifacts, row.session.pool, strict=True):
            if name not in artifacts:
                artifacts[name] = encode_artifact(artifact)
                new.append((artifact_key(key, name), artifacts[name], NO_HEADERS))
        gone = sorted(artifacts.keys() - set(row.artifacts))
        for name in gone:
            self.remove(key, name)
        return new, [(artifact_key(key, name), None, NO_HEADERS) for name in gone]

    def add(self, key: bytes, name: bytes, value: bytes) -> None:
        """Store an encoded artifact."""
        self._artifacts.setdefault(key, {})[name] = value

    def remove(self, key: bytes, name: bytes) -> None:
        """Drop an artifact."""
        if artifacts := self._artifacts.get(key):
            artifacts.pop(name, None)
            if not artifacts:
                del self._artifacts[key]

    def remove_all(self, key: bytes) -> list[StateRecord]:
        """Drop all artifacts of a session, and return the tombstones that remove them."""
        return [(artifact_key(key, name), None, NO_HEADERS) for name in self._artifacts.pop(key, _NONE)]

    def keep(self, needed: Mapping[bytes, Iterable[bytes]]) -> list[bytes]:
        """Drop the artifacts that no session needs, and return the keys of their records."""
        orphans: list[bytes] = []
        for key, artifacts in list(self._artifacts.items()):
            for name in artifacts.keys() - set(needed.get(key, ())):
                self.remove(key, name)
                orphans.append(artifact_key(key, name))
        return orphans
