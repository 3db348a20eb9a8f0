"""Why a value is no JSON, in words that lead to the mistake: its encoding, or the column where reading ended.

Decides what is told; that the value is refused, the decoder did. Never repeats what was sent.
"""

import re

_ENCODINGS = (
    ("begins with a byte order mark (EF BB BF): send UTF-8 without one", (b"\xef\xbb\xbf",)),
    ("is in UTF-32: send UTF-8", (b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\0\0\0", b"{\0\0\0")),
    ("is in UTF-16: send UTF-8", (b"\xff\xfe", b"\xfe\xff", b"\0", b"{\0")),
)
"""How a value in another encoding begins: with its mark, or with a `{` of more than one byte."""

_REASON = re.compile(r"JSON is malformed: (?P<what>.+) \(byte (?P<byte>[0-9]+)\)")
_TOO_EARLY = "it ends too early, or within an escape"


def why_not_json(value: bytes, reason: str) -> str:
    """Return what is wrong with a value that msgspec refused for that reason.

    Columns and lines count from 1, in characters; msgspec may have read a little further than the mistake.
    """
    for told, beginnings in _ENCODINGS:
        if value.startswith(beginnings):
            return f"the value {told}"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"the value is not UTF-8 ({_place(value, error.start)})"
    found = _REASON.fullmatch(reason)
    what = found["what"] if found else _TOO_EARLY
    place = _place(value, int(found["byte"]) if found else len(value.rstrip()))
    return f"the value is not JSON: {what} (near {place}){one_line(value)}"


def one_line(value: bytes) -> str:
    """Return what to add to a message where a value is a line of a pretty-printed object, else nothing."""
    line = value.strip()
    is_part = line.endswith((b"{", b"[", b",")) or line in (b"}", b"]")
    return "; in JSON lines an event stands on one line, not pretty-printed on several" if is_part else ""


def _place(value: bytes, byte: int) -> str:
    before = value[:byte].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"column {column}" if line == 1 else f"line {line}, column {column}"
