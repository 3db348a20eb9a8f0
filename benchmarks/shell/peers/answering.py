"""The answer of all Python peers to a request: read its JSON and write two values, without composing."""

from collections.abc import Mapping
from typing import Any

import msgspec

SIZES = (590, 2_910)
"""Bytes of a composed event and a decision for a small request."""
_FRAME_BYTES = 70
"""Bytes of names and ids among them."""
_COMPOSED, _DECISION = ("x" * (size - _FRAME_BYTES) for size in SIZES)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def answers(value: bytes | None) -> tuple[bytes, bytes]:
    """Return an answer and a decision."""
    assert value is not None, "there are no tombstones among the requests"
    request = _decode(value)
    return _encode(_answer(request, _COMPOSED)), _encode(_answer(request, _DECISION))


def _answer(request: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"request_id": request["request_id"], "session_id": request["session_id"], "text": text}
