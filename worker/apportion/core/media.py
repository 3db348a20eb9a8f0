"""Media in the blocks of messages, until their rules are here."""

from collections.abc import Mapping
from typing import Any

_KINDS = {"image_url": "image", "image": "image", "input_image": "image", "input_audio": "audio"}
_DOCUMENTS = ("document", "file", "input_file")


def stub_of(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the stub of a medium; None for another block."""
    kind = str(block.get("type"))
    if kind in _KINDS or kind in _DOCUMENTS:
        return {"type": "media", "media": _KINDS.get(kind, "document")}
    return None
