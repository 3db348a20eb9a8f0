"""Messages for values that are no JSON, without their text: the encoding, or the column of the mistake."""

import re

_ENCODINGS = (
    ("begins with a byte order mark (EF BB BF): send UTF-8 without one", (b"\xef\xbb\xbf",)),
    ("is in UTF-32: send UTF-8", (b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\0\0\0{\0\0\0", b"{\0\0\0")),
    ("is in UTF-16: send UTF-8", (b"\xff\xfe", b"\xfe\xff", b"\0{\0", b"{\0")),
)
"""The beginnings of values in other encodings: a byte order mark, or a `{` of more than one byte."""

_REGISTRY_FRAME = re.compile(rb"\x00(?!\{\x00|\x00\x00\{\x00{3}|\x00\xfe\xff).{4}|\x01.{16}\s*\{", re.DOTALL)
"""The beginning that a registry's serializers write: byte 0 and a schema's id, or byte 1 and its GUID.

JSON, Avro or Protobuf may follow the id; only JSON is recognised after a GUID. A `{` or byte order mark in
UTF-16 or UTF-32 is no frame.
"""

_REASON = re.compile(r"JSON is malformed: (?P<what>.+) \(byte (?P<byte>[0-9]+)\)")
_TOO_EARLY = "it ends too early, or within an escape"


def why_not_json(value: bytes, reason: str) -> str:
    """Return a message for a value that msgspec refused for that reason.

    Columns and lines count from 1, in characters. msgspec may have read a little past the mistake.
    """
    if _REGISTRY_FRAME.match(value):
        frame = "a schema registry's frame (byte 0 and four bytes of schema id, or byte 1 and a GUID)"
        return f"the value begins with {frame}: send plain JSON without it (docs/schemas.md)"
    for description, beginnings in _ENCODINGS:
        if value.startswith(beginnings):
            return f"the value {description}"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"the value is not UTF-8 ({_place(value, error.start)})"
    match = _REASON.fullmatch(reason)
    what = match["what"] if match else _TOO_EARLY
    place = _place(value, int(match["byte"]) if match else len(value.rstrip()))
    return f"the value is not JSON: {what} (near {place}){one_line(value)}"


def one_line(value: bytes) -> str:
    """Return a hint if a value looks like a line of a pretty-printed object, else the empty string."""
    line = value.strip()
    is_part = line.endswith((b"{", b"[", b",")) or line in (b"}", b"]")
    return "; in JSON lines an event stands on one line, not pretty-printed on several" if is_part else ""


def _place(value: bytes, byte: int) -> str:
    before = value[:byte].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"column {column}" if line == 1 else f"line {line}, column {column}"
