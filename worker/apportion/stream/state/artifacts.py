"""The artifacts of the sessions of one partition, in memory, each as the bytes that stand in the changelog.

Decides which records bring the changelog from one pool of a session to the next, and which artifacts no row
has. Never knows what a row says beside their names.
"""

from collections.abc import Iterable, Mapping, Sequence

from apportion.core.session.pool import Pooled
from apportion.stream.state.row_format import (
    NO_HEADERS,
    Row,
    StateRecord,
    artifact_key,
    decode_artifact,
    encode_artifact,
)

_NONE: dict[bytes, bytes] = {}


class Artifacts:
    """By session key, then by name."""

    def __init__(self) -> None:
        """Hold none."""
        self._held: dict[bytes, dict[bytes, bytes]] = {}

    @property
    def size_bytes(self) -> int:
        """What they have in bytes; looks at each of them."""
        return sum([len(value) for held in self._held.values() for value in held.values()])

    def names(self, key: bytes) -> Iterable[bytes]:
        """Return the names of a session's."""
        return self._held.get(key, _NONE).keys()

    def held(self, key: bytes) -> Mapping[bytes, bytes]:
        """Return a session's by name; they change no more where `remove_all` follows."""
        return self._held.get(key, _NONE)

    def decoded(self, key: bytes, names: Sequence[bytes]) -> tuple[Pooled, ...]:
        """Return a session's artifacts of these names; all of them are here."""
        if not names:
            return ()
        held = self._held[key]
        return tuple([decode_artifact(held[name]) for name in names])

    def records(self, key: bytes, names: Iterable[bytes]) -> list[StateRecord]:
        """Return the records that write a session's artifacts of these names again."""
        held = self._held.get(key, _NONE)
        return [(artifact_key(key, name), held[name], NO_HEADERS) for name in names]

    def change(self, key: bytes, row: Row) -> tuple[list[StateRecord], list[StateRecord]]:
        """Hold those of a row, and return the records of new ones, and of those that are gone.

        The new stand before the row that has them, those that go behind the row that has them no more.
        """
        held = self._held.get(key)
        if not (held or row.artifacts):
            return [], []
        held = self._held.setdefault(key, {})
        new: list[StateRecord] = []
        for name, artifact in zip(row.artifacts, row.session.pool, strict=True):
            if name not in held:
                held[name] = encode_artifact(artifact)
                new.append((artifact_key(key, name), held[name], NO_HEADERS))
        gone = sorted(held.keys() - set(row.artifacts))
        for name in gone:
            self.remove(key, name)
        return new, [(artifact_key(key, name), None, NO_HEADERS) for name in gone]

    def put(self, key: bytes, row: Row) -> None:
        """Hold those of a row, and no other of its session."""
        pool = zip(row.artifacts, row.session.pool, strict=True)
        if held := {name: encode_artifact(artifact) for name, artifact in pool}:
            self._held[key] = held
        else:
            self._held.pop(key, None)

    def add(self, key: bytes, name: bytes, value: bytes) -> None:
        """Hold one that was read."""
        self._held.setdefault(key, {})[name] = value

    def remove(self, key: bytes, name: bytes) -> None:
        """Hold one no more."""
        if held := self._held.get(key):
            held.pop(name, None)
            if not held:
                del self._held[key]

    def remove_all(self, key: bytes) -> list[StateRecord]:
        """Hold none of a session any more, and return the records that remove them."""
        return [(artifact_key(key, name), None, NO_HEADERS) for name in self._held.pop(key, _NONE)]

    def keep(self, needed: Mapping[bytes, Iterable[bytes]]) -> list[bytes]:
        """Hold no more than the names that sessions need, and return the keys of the other records."""
        orphans: list[bytes] = []
        for key, held in list(self._held.items()):
            for name in held.keys() - set(needed.get(key, ())):
                self.remove(key, name)
                orphans.append(artifact_key(key, name))
        return orphans
