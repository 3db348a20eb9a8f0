"""Media in messages: images, documents and audio as providers send them, their sizes and their tokens.

Media cost by a rule for their type, never by their bytes. `stub_of` replaces a block by a small description.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from apportion.core.image_rules import RULES, ImageRule

Kind: TypeAlias = Literal["image", "document", "audio", "unknown"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("image", "image_url", "input_image", "computer_screenshot"), "image"),
    **dict.fromkeys(("document", "file", "input_file", "document_url"), "document"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url", "container_upload"), "unknown"),
    **dict.fromkeys(("inlineData", "inline_data", "fileData", "file_data"), "unknown"),  # Gemini
    **dict.fromkeys(("image-data", "image-url", "image-file-id"), "image"),  # AI SDK, results of tools
    **dict.fromkeys(("file-data", "file-url", "file-id"), "document"),
    "media": "unknown",
}
"""The kind of a block by its `type`, or by its key if it has no `type`. A MIME type takes precedence."""
_OPENAI = {"image_url", "input_image", "computer_screenshot", "input_file", "input_audio"}
_CONTENTS = ("data", "bytes", "base64", "file_data", "image_url", "url", "image", "file", "audio")
"""Fields with bytes, base64, a data URL or a URL."""
_REFERENCES = (
    *("file_url", "document_url", "video_url", "audio_url", "file_uri", "fileUri", "file_id", "fileId"),
    *("s3Location", "id"),
)
_TEXTS = ("title", "context")
_TEXT_BYTES_OF_A_PAGE = 1_500
"""A page of a text file. A document costs 1,500 tokens a page by default, and no byte costs more than one."""
_MIME_TYPES = ("media_type", "mime_type", "mimeType", "mediaType")
_BASE64 = re.compile(r"[ \t\r\n]*(?:[A-Za-z0-9+/_=-]{32,}[ \t\r\n]+)*[A-Za-z0-9+/_=-]*")
"""Base64 in lines of 32 or more characters; words of a text without punctuation are shorter."""
_BASE64_CHARACTERS = 1024
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_PNG = b"\x89PNG\r\n\x1a\n"
_IMAGE_STARTS = (_PNG, b"GIF8", b"RIFF", b"\xff\xd8")
_PNG_BYTES = 25
_HEAD_BYTES = (1 << 12, 1 << 16, 1 << 18)
"""Lengths of the beginning that are decoded in turn. Only a JPEG with large metadata needs the second."""
_MOST_PIXELS = 65_535
_MOST_PAGES = 10_000
_PAGE_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
_MOST_DEPTH = 200
_REMOVED = "[data]"
_SCALARS = frozenset({int, float, bool, type(None)})
_UNREAD = {
    "cache_control",  # Anthropic, prompt caching: marks the end of a cached prefix
    "cachePoint",  # Bedrock Converse: likewise
    "signature",  # Anthropic, extended thinking: proves that thinking is unchanged; Converse, likewise
    "encrypted_content",  # OpenAI, reasoning items; Anthropic, web search results
    "encrypted_index",  # Anthropic, citations of web search results
    "thought_signature",  # Gemini, thinking: an opaque state
    "thoughtSignature",  # likewise, as JSON
    "providerOptions",  # AI SDK: options for a provider
    "providerMetadata",  # AI SDK: likewise, of an answer
}
"""Fields that are not part of a model's input, each with its source."""


class Media(Struct, frozen=True):
    """A medium: its kind and size. A width, height or number of pages of 0 is unknown."""

    kind: Kind
    width: int = 0
    height: int = 0
    pages: int = 0
    is_low: bool = False
    is_openai: bool = False


def media_of(block: Mapping[str, Any]) -> Media | None:
    """Return the medium of a block in any provider's form or of a stub; None if the block is no medium."""
    if _is_stub(block):
        return Media(
            kind=cast("Kind", block["media"]),
            width=_number(block.get("width"), _MOST_PIXELS),
            height=_number(block.get("height"), _MOST_PIXELS),
            pages=_number(block.get("pages"), _MOST_PAGES),
            is_low=block.get("detail") == "low",
            is_openai=block.get("form") == "openai",
        )
    found = _name_and_source(block)
    return None if found is None else _media_of(block, *found)


def _media_of(block: Mapping[str, Any], name: str, fields: Mapping[str, Any], source: Any) -> Media:
    kind = _kind(name, fields, source)
    width, height = _size(source) if kind == "image" else (0, 0)
    return Media(
        kind=kind,
        width=width,
        height=height,
        pages=_pages(source, _mime_type(fields, source)) if kind == "document" else 0,
        is_low=fields.get("detail") == "low",
        is_openai=name in _OPENAI or (name == "file" and isinstance(block.get("file"), Mapping)),
    )


def stub_of(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a small block that describes the medium of a block; None if the block is no medium.

    `digest` is SHA-256 of the bytes, text or JSON of the source, as 32 hex digits. A stub is returned
    unchanged.
    """
    if _is_stub(block):
        return dict(block)
    found = _name_and_source(block)
    if found is None:
        return None
    _, fields, source = found
    media = _media_of(block, *found)
    stub: dict[str, Any] = {"type": "media", "media": media.kind}
    stub |= {key: size for key in ("width", "height", "pages") if (size := getattr(media, key))}
    stub |= ({"detail": "low"} if media.is_low else {}) | ({"form": "openai"} if media.is_openai else {})
    digest = hashlib.sha256(_digested(source)).hexdigest()[:32]
    return stub | _texts_in(fields) | {"digest": digest}


def texts_of(block: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a model reads beside a medium: the title and the context of a document."""
    found = None if _is_stub(block) else _name_and_source(block)
    return _texts_in(block if found is None else found[1])


def _texts_in(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name in _TEXTS if isinstance(text := fields.get(name), str) and text}


def media_tokens(
    media: Media, *, image: str | int | ImageRule, document: int, audio: int, unknown_tokens: int
) -> int:
    """Return the tokens of a medium.

    `image` is a number of tokens, a rule of `image_rules` or its name, or `auto`: `tiles` for blocks of
    OpenAI, `area` for others. An image of unknown size costs `unknown_tokens`, unless its rule has a cost
    for `detail: low`. A document costs `document` for each page, or once if the number of pages is unknown.
    """
    if media.kind == "document":
        return document * (media.pages or 1)
    if media.kind == "audio":
        return audio
    if media.kind == "image":
        rule = ("tiles" if media.is_openai else "area") if image == "auto" else image
        if isinstance(rule, int):
            return rule
        if isinstance(rule, str):
            rule = RULES[rule]
        low_tokens = rule.low_tokens if media.is_low else 0
        if media.width and media.height:
            tokens = rule.count(media.width, media.height)
            return min(tokens, low_tokens or tokens)
        return low_tokens or unknown_tokens
    return unknown_tokens


def without_data(value: Any, depth: int = 0) -> tuple[Any, int]:
    """Return a JSON value without base64, data URLs, bytes and unread fields, and the number of removed data.

    Base64 is a string of 1,024 or more characters, possibly in lines. Each is replaced by a short text. The
    same object is returned if it has none. Values below the 200th level are returned as they are; `depth` is
    the level of the given one.
    """
    if isinstance(value, str):
        return (_REMOVED, 1) if _is_data(value) else (value, 0)
    if isinstance(value, bytes | bytearray | memoryview):
        return _REMOVED, 1
    if depth >= _MOST_DEPTH or not isinstance(value, dict | list | tuple) or not value:
        return value, 0
    is_object = isinstance(value, dict)
    kept = [key for key in value if key not in _UNREAD] if is_object else range(len(value))
    pairs = [
        (part, 0) if type(part := value[key]) in _SCALARS else without_data(part, depth + 1) for key in kept
    ]
    parts = [part for part, _ in pairs]
    removed = sum([number for _, number in pairs])
    if len(kept) == len(value) and all(value[key] is part for key, part in zip(kept, parts, strict=True)):
        return value, removed
    return (dict(zip(kept, parts, strict=True)) if is_object else parts), removed


def _is_data(text: str) -> bool:
    if len(text) < _BASE64_CHARACTERS or text.startswith("data:"):
        return _DATA_URL.match(text) is not None
    return _BASE64.fullmatch(text) is not None


def _is_stub(block: Mapping[str, Any]) -> bool:
    kind = block.get("media")
    return block.get("type") == "media" and kind in ("image", "document", "audio", "unknown")


def _number(value: Any, most: int) -> int:
    return value if type(value) is int and 0 < value <= most else 0


def _name_and_source(block: Mapping[str, Any]) -> tuple[str, dict[str, Any], Any] | None:
    """Return the name of a block's form, its fields and its source: bytes, a text, or another JSON value."""
    name = block.get("type")
    if name is None:
        name = next((key for key in block if key in _KINDS and isinstance(block[key], Mapping)), None)
    if not isinstance(name, str) or name not in _KINDS:
        return None
    fields = dict(block)
    for key in (name, "image_url", "source"):
        if isinstance(inner := fields.get(key), Mapping):
            del fields[key]
            fields |= inner
    if fields.get("type") in ("text", "content"):  # a document of Anthropic
        return None
    for key in _CONTENTS:
        if isinstance(source := fields.get(key), str | bytes | bytearray | memoryview) and source:
            return name, fields, source if isinstance(source, str) else bytes(source)
    for key in _REFERENCES:
        if source := fields.get(key):
            return name, fields, {key: source}
    return None


def _kind(name: str, fields: Mapping[str, Any], source: Any) -> Kind:
    family = _mime_type(fields, source).partition("/")[0]
    if family in ("image", "audio"):
        return cast("Kind", family)
    if family in ("application", "text"):
        return "document"
    return "unknown" if family == "video" else _KINDS[name]


def _mime_type(fields: Mapping[str, Any], source: Any) -> str:
    if isinstance(source, str) and source.startswith("data:"):
        return source[5:100]
    return next((mime for key in _MIME_TYPES if isinstance(mime := fields.get(key), str)), "")


def _size(source: Any) -> tuple[int, int]:
    """Return width and height by the header of an image's bytes; (0, 0) if it has none."""
    for length in _HEAD_BYTES:
        head = _decoded(source, length)
        if not head.startswith(_IMAGE_STARTS):
            break
        width, height = _header_size(head)
        if 0 < width <= _MOST_PIXELS and 0 < height <= _MOST_PIXELS:
            return width, height
        if len(head) < length or not head.startswith(_IMAGE_STARTS[-1]):
            break
    return 0, 0


def _header_size(head: bytes) -> tuple[int, int]:
    if head.startswith(_PNG):  # most images; imagesize takes 20 µs
        is_whole = head[12:16] == b"IHDR" and len(head) > _PNG_BYTES
        return (
            (int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")) if is_whole else (0, 0)
        )
    from imagesize import get  # noqa: PLC0415  # it takes 50 ms, and few processes need it

    width, height = get(BytesIO(head), exif_rotation=False)
    return int(width), int(height)


def _pages(source: Any, mime_type: str) -> int:
    """Return the number of pages of a PDF or a text; 0 if its bytes do not show it."""
    if mime_type.startswith("text/"):
        return min(_MOST_PAGES, -(-len(_decoded(source, None)) // _TEXT_BYTES_OF_A_PAGE))
    if b"%PDF" not in _decoded(source, _HEAD_BYTES[0])[:1024]:
        return 0
    counts = map(int, _PAGE_COUNT.findall(_decoded(source, None)))
    return _number(max(counts, default=0), _MOST_PAGES)


def _decoded(source: Any, length: int | None) -> bytes:
    """Return the first bytes of bytes, base64 or a data URL, or all; nothing for a URL or a reference."""
    if isinstance(source, bytes):
        return source[:length]
    if not isinstance(source, str):
        return b""
    start = 0
    if source.startswith("data:"):
        match = _DATA_URL.match(source)
        if match is None:
            return b""
        start = match.end()
    elif "://" in source[:12]:
        return b""
    end = None if length is None else start + length // 3 * 4 + 4
    text = source[start:end].encode("ascii", "ignore").translate(None, b" \t\r\n=")
    try:
        return base64.b64decode(text[: len(text) - (len(text) % 4 == 1)] + b"==", altchars=b"-_")[:length]
    except ValueError:
        return b""


def _digested(source: Any) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, str):
        return source.encode(errors="surrogatepass")
    return json.dumps(source, sort_keys=True, default=repr).encode()
