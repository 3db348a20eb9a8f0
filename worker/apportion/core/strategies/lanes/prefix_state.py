"""State that a session carries to its next text: the first items, by id and by digest of their text."""

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from msgspec import UNSET, Struct, msgpack

from apportion.core.digests import text_digest
from apportion.core.results import Fidelity
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategies.lanes.text import rendered

ITEMS_MAX = 256
BYTES_MAX = 16_384
"""The most bytes of the carried ids, with 16 bytes added for each; a session's row holds four lists."""
_ADDED_TO_ID_BYTES = 16
_DIGEST_BYTES = 8
_HEX = slice(len("sha256:"), len("sha256:") + 2 * _DIGEST_BYTES)


class PrefixItem(Struct, frozen=True, gc=False):
    """An item of the previous text: its id, and the first 8 bytes of the SHA-256 of its piece."""

    id: str
    digest: bytes


class _PrefixRow(Struct, frozen=True, array_like=True):
    """The items in the session's row, in MessagePack. All digests are in one string, 8 bytes each."""

    digests: bytes
    ids: tuple[str, ...]


def items_of(value: bytes) -> Sequence[PrefixItem]:
    """Return the carried items; an empty value has none."""
    if not value:
        return ()
    row = msgpack.decode(value, type=_PrefixRow)
    starts = range(0, len(row.digests), _DIGEST_BYTES)
    return [
        PrefixItem(name, row.digests[start : start + _DIGEST_BYTES])
        for name, start in zip(row.ids, starts, strict=True)
    ]


def value_of(artifacts: Iterable[Artifact], template: str | None) -> bytes:
    """Return the value to carry: the items before the first that is not in full, within both maximums."""
    whole = takewhile(lambda artifact: artifact.fidelity is Fidelity.FULL, artifacts)
    carried: list[Artifact] = []
    left_bytes = BYTES_MAX
    for artifact in islice(whole, ITEMS_MAX):
        left_bytes -= len(artifact.id.encode()) + _ADDED_TO_ID_BYTES
        if left_bytes < 0:
            break
        carried.append(artifact)
    digests = b"".join([piece_digest(artifact, template) for artifact in carried])
    return msgpack.encode(_PrefixRow(digests, tuple([artifact.id for artifact in carried])))


def piece_digest(artifact: Artifact, template: str | None) -> bytes:
    """Return the first 8 bytes of the SHA-256 of an artifact's piece."""
    facts = artifact.prepared.facts
    content = facts.content
    if template is None and content is not UNSET and facts.source_label is UNSET:
        # the facts have the content's digest
        return bytes.fromhex(content[_HEX])
    return bytes.fromhex(text_digest(rendered(artifact, artifact.prepared.content, template))[_HEX])
