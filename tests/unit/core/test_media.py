"""Media in messages: their recognition, sizes, tokens, stubs, and JSON without data."""

import struct
from base64 import b64encode, urlsafe_b64encode
from itertools import product
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apportion.core.image_rules import RULES, PatchRule
from apportion.core.media import Media, media_of, media_tokens, stub_of, without_data
from apportion.engine.models import builtin_models

PRICES = {"document": 1500, "audio": 1000, "unknown_tokens": 2000}


def png(width: int, height: int, data: bytes = b"") -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">LL", width, height) + b"\x08\x02\0\0\0" + data


def jpeg(width: int, height: int, metadata: int = 0) -> bytes:
    segments = (b"\xff\xe2\xff\xff" + bytes(65_533)) * metadata
    return b"\xff\xd8" + segments + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", height, width) + bytes(12)


def webp(width: int, height: int) -> bytes:
    sides = (side.to_bytes(3, "little") for side in (width - 1, height - 1))
    return b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"".join(sides) + bytes(8)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(20)


def text_of(data: bytes) -> str:
    return b64encode(data).decode()


PIXELS = text_of(png(640, 480))
URL = "data:image/png;base64," + PIXELS
PDF = text_of(b"%PDF-1.7\n1 0 obj <</Type /Pages /Count 12 /Kids []>> 2 0 obj <</Count 5>>")
IMAGE = Media("image", 640, 480)
OPENAI_IMAGE = Media("image", 640, 480, is_openai=True)
CASES: list[tuple[dict[str, Any], Media]] = [
    ({"type": "image_url", "image_url": {"url": URL}}, OPENAI_IMAGE),
    ({"type": "image_url", "image_url": URL}, OPENAI_IMAGE),
    ({"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "low"}},
     Media("image", is_low=True, is_openai=True)),
    ({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
     Media("audio", is_openai=True)),
    ({"type": "file", "file": {"file_data": "data:application/pdf;base64," + PDF, "filename": "a.pdf"}},
     Media("document", pages=12, is_openai=True)),
    ({"type": "file", "file": {"file_id": "file-1"}}, Media("document", is_openai=True)),
    ({"type": "input_image", "image_url": URL, "detail": "low"}, Media("image", 640, 480, 0, True, True)),  # noqa: FBT003
    ({"type": "input_image", "file_id": "file-1"}, Media("image", is_openai=True)),
    ({"type": "input_file", "file_url": "https://a.b/c.pdf"}, Media("document", is_openai=True)),
    ({"type": "computer_screenshot", "image_url": URL}, OPENAI_IMAGE),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}}, IMAGE),
    ({"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}, Media("image")),
    ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, Media("image")),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
     Media("document", pages=12)),
    ({"type": "container_upload", "file_id": "file_1"}, Media("unknown")),
    ({"inlineData": {"mimeType": "image/png", "data": PIXELS}}, IMAGE),
    ({"inline_data": {"mime_type": "image/png", "data": png(640, 480)}}, IMAGE),
    ({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/b"}}, Media("unknown")),
    ({"file_data": {"mime_type": "application/pdf", "file_uri": "gs://a/b"}}, Media("document")),
    ({"image": {"format": "png", "source": {"bytes": png(640, 480)}}}, IMAGE),
    ({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b"}}}}, Media("image")),
    ({"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}}, Media("document", pages=12)),
    ({"video": {"format": "mp4", "source": {"bytes": b"abc"}}}, Media("unknown")),
    ({"type": "image", "base64": PIXELS, "mime_type": "image/png"}, IMAGE),
    ({"type": "image", "source_type": "base64", "data": PIXELS, "mime_type": "image/png"}, IMAGE),
    ({"type": "file", "base64": PDF, "mime_type": "application/pdf"}, Media("document", pages=12)),
    ({"type": "audio", "url": "https://a.b/c.wav"}, Media("audio")),
    ({"type": "video", "file_id": "1"}, Media("unknown")),
    ({"type": "image", "image": PIXELS}, IMAGE),
    ({"type": "image", "image": URL}, IMAGE),
    ({"type": "file", "data": PIXELS, "mediaType": "image/png"}, IMAGE),
    ({"type": "media", "data": PIXELS, "mediaType": "image/png"}, IMAGE),
    ({"type": "media", "media": "document", "pages": 3}, Media("document", pages=3)),
    ({"type": "media", "media": "image", "width": "9", "height": -1, "pages": 10**9}, Media("image")),
]  # fmt: skip


@pytest.mark.parametrize(("block", "media"), CASES)
def test_a_block_of_every_provider_is_read_and_its_stub_too(block: dict[str, Any], media: Media) -> None:
    assert media_of(block) == media
    stub = stub_of(block)
    assert stub is not None
    assert media_of(stub) == media
    assert len(repr(stub)) < 200


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": URL},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Open."}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Open."}]}},
        {"document": {"format": "txt", "name": "a", "source": {"text": "Open."}}},
        {"type": "file", "path": "a.py"},
        {"type": "thinking", "thinking": "", "signature": "a"},
        {"image": "a.png"},
        {"type": ["image"]},
        {},
    ],
)
def test_other_blocks_are_no_media(block: dict[str, Any]) -> None:
    assert media_of(block) is None
    assert stub_of(block) is None


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(640, 480), (640, 480)),
        (gif(640, 480), (640, 480)),
        (webp(640, 480), (640, 480)),
        (jpeg(640, 480), (640, 480)),
        (jpeg(640, 480, metadata=2), (640, 480)),
        (png(0, 480), (0, 0)),
        (png(2**31, 480), (0, 0)),
        (png(640, 480)[:20], (0, 0)),
        (webp(640, 480)[:20], (0, 0)),
        (jpeg(640, 480)[:9], (0, 0)),
        (b"P6 640 480 255\n", (0, 0)),
        (b"a", (0, 0)),
    ],
)
def test_a_size_is_read_from_a_header_or_unknown(data: bytes, size: tuple[int, int]) -> None:
    texts = (text_of(data), urlsafe_b64encode(data).decode().rstrip("="), "\n".join(text_of(data)[:9000]))
    for source in (data, *texts[: 3 if len(data) < 4096 else 2]):
        media = media_of({"type": "image", "data": source, "mimeType": "image/png"})
        assert media is not None
        assert (media.width, media.height) == size


@pytest.mark.parametrize(("counts", "pages"), [(b"/Count 3 /Count 7", 7), (b"/Count 10001", 0), (b"", 0)])
def test_the_largest_count_of_a_pdf_is_its_number_of_pages(counts: bytes, pages: int) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": text_of(b"%PDF-1.4 " + counts)}
    media = media_of({"type": "document", "source": source})
    assert media == Media("document", pages=pages)
    assert media_tokens(media, image="auto", **PRICES) == 1500 * (pages or 1)


@pytest.mark.parametrize(
    ("rule", "width", "height", "tokens"),
    [
        ("area", 3840, 2160, 92 * 52),  # Anthropic: scaled to 2,576 by 1,449 pixels
        ("area", 1920, 1080, 69 * 39),  # a public measurement of Claude 5.5, less its 77 tokens of text
        ("area", 1000, 1000, 36 * 36),
        ("area", 8000, 8000, 69 * 69),
        ("tiles", 1024, 1024, 765),  # OpenAI's examples
        ("tiles", 2048, 4096, 1105),
        ("tiles", 4096, 8192, 1105),
        ("tiles", 2049, 513, 85 + 8 * 170),  # public measurements: sides are rounded after scaling
        ("tiles", 2050, 513, 85 + 4 * 170),
        ("tiles", 512, 512, 255),
        ("patches", 1024, 1024, 1024),  # OpenAI's examples
        ("patches", 1800, 2400, 1452),
        (777, 3840, 2160, 777),
    ],
)
def test_documented_examples(rule: str | int, width: int, height: int, tokens: int) -> None:
    for sides in ((width, height), (height, width)):
        assert media_tokens(Media("image", *sides), image=rule, **PRICES) == tokens


MODEL_EXAMPLES = [
    ("gpt-5.4", 1024, 1024, 1229),  # OpenAI's examples and tables, November 2026
    ("gpt-5.2", 1800, 2400, 3687),  # 48 by 64 patches within 2,048 pixels, times 1.2
    ("gpt-4.1-mini", 1024, 1024, 1659),
    ("o4-mini", 1024, 1024, 1762),
    ("gpt-5", 1024, 1024, 70 + 4 * 140),
    ("o3", 2048, 4096, 75 + 6 * 150),
    ("gpt-4o-mini", 1024, 1024, 2833 + 4 * 5667),
    ("claude-sonnet-4-6", 1920, 1080, 52 * 30),  # Anthropic's examples
    ("claude-sonnet-4-6", 1092, 1092, 39 * 39),
    ("gemini-3-pro-preview", 4032, 3024, 2240),  # Google's table
]


@pytest.mark.parametrize(("model", "width", "height", "tokens"), MODEL_EXAMPLES)
def test_documented_examples_of_models(model: str, width: int, height: int, tokens: int) -> None:
    assert model_tokens(model, Media("image", width, height)) == tokens


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("gpt-5-mini", 768, 1024, 922),  # a public measurement, June 2026
        ("gpt-5.5", 3840, 2160, 9792),  # public measurements in `image-token-cost`, autumn 2026
        ("gpt-5.5", 4032, 3024, 11868),
        ("gpt-6-astra", 256, 256, 77),
        ("gpt-6-astra", 4032, 3024, 14364),
        ("claude-haiku-4-5", 1920, 1080, 1625 - 65),  # less the tokens of the text
        ("gemini-3.1-pro-preview", 1920, 1080, 1101),
        ("gemini-2.5-flash", 960, 540, 1548),  # Google's example
    ],
)
def test_a_model_costs_no_less_than_measured(model: str, width: int, height: int, tokens: int) -> None:
    most = 1300 if model.startswith("gemini") else 1
    assert 0 <= model_tokens(model, Media("image", width, height)) - tokens <= most


def test_low_detail_costs_by_the_model() -> None:
    low = Media("image", is_low=True, is_openai=True)
    models = ("gpt-5.5", "gpt-5", "gpt-4o-mini", "gpt-5.4", "claude-sonnet-4-6")
    assert [model_tokens(model, low) for model in models] == [308, 70, 2833, 2000, 2000]
    assert model_tokens("gpt-5.5", Media("image", 64, 64, is_low=True)) == 5
    assert model_tokens("gpt-5.4", Media("image", 2048, 2048, is_low=True)) == 4096 * 6 // 5 + 1


def model_tokens(name: str, media: Media) -> int:
    row = builtin_models().find(name)
    assert row is not None
    assert row.image is not None
    return media_tokens(media, image=row.image, **PRICES)


SIZES = st.integers(1, 65_535)


@given(SIZES, SIZES, st.integers(1, 30_000), st.integers(1, 65_535), st.integers(0, 3_000))
def test_a_greater_multiplier_never_costs_less(
    width: int, height: int, budget: int, side: int, permille: int
) -> None:
    rule = PatchRule(budget=budget, side=side, permille=permille)
    tokens = rule.count(width, height)
    assert tokens <= replace(rule, permille=permille + 1).count(width, height)
    assert tokens <= budget * permille // 1_000 + 1


def test_the_rules_of_policies_keep_their_values() -> None:
    widths, heights = (
        (1, 27, 300, 512, 769, 1024, 2049, 4096, 8191, 65535),
        (1, 33, 513, 768, 1536, 3000, 20000),
    )
    sums = {name: sum(rule.count(*size) for size in product(widths, heights)) for name, rule in RULES.items()}
    assert sums == {"area": 59205, "tiles": 51850, "patches": 52173}


def test_auto_follows_the_provider_and_low_detail_needs_no_size() -> None:
    anthropic, openai = Media("image", 1024, 1024), Media("image", 1024, 1024, is_openai=True)
    low = Media("image", is_low=True, is_openai=True)
    assert media_tokens(anthropic, image="auto", **PRICES) == 37 * 37
    assert media_tokens(openai, image="auto", **PRICES) == 765
    assert [media_tokens(low, image=rule, **PRICES) for rule in ("auto", "tiles", "area")] == [85, 85, 2000]
    assert media_tokens(Media("audio"), image="auto", **PRICES) == 1000
    assert media_tokens(Media("unknown"), image=5, **PRICES) == 2000


def test_another_source_has_another_digest_and_cache_control_changes_none() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "image", "source": {"type": "base64", "data": text_of(png(9, 9, b"a"))}},
        {"type": "image", "source": {"type": "base64", "data": text_of(png(9, 9, b"b"))}},
        {"type": "image", "source": {"type": "file", "file_id": "a"}},
        {"type": "image", "source": {"type": "file", "file_id": "b"}},
    ]
    stubs = [stub_of(block) or {} for block in blocks]
    assert len({stub["digest"] for stub in stubs}) == 4
    assert stub_of(blocks[0] | {"cache_control": {"type": "ephemeral"}}) == stubs[0]


def test_data_and_unread_fields_are_removed() -> None:
    value = {
        "result": PIXELS * 40,
        "lines": [text_of(bytes(range(57))) + "\r\n"] * 2,
        "pem": "\n".join([text_of(bytes(range(48)))] * 20),
        "urls": [URL, "data:,a", "data: is no URL"],
        "bytes": b"a",
        "signature": "abc",
        "cache_control": {"type": "ephemeral"},
    }
    removed = {
        "result": "[data]",
        "lines": value["lines"],
        "pem": "[data]",
        "urls": ["[data]", "data:,a", "data: is no URL"],
        "bytes": "[data]",
    }
    assert without_data(value) == (removed, 4)


@pytest.mark.parametrize(
    "value", [{"a": ["b", {"c": None}]}, "a" * 1023, "word " * 400, "word, " * 400, [], 1]
)
def test_other_values_are_the_same_object(value: Any) -> None:
    assert without_data(value) == (value, 0)
    assert without_data(value)[0] is value


def test_a_deep_value_is_no_error() -> None:
    value: Any = URL
    for _ in range(100_000):
        value = [value]
    assert without_data(value)[0] is value


KEYS = ["type", "source", "image_url", "url", "data", "media", "width", "file", "image", "inlineData",
        "mimeType", "bytes", "pages", "detail", "form", "id", "file_id", "s3Location"]  # fmt: skip
WORDS = ["image", "image_url", "media", "document", "file", "openai", "low", "image/png", "base64", URL,
         PIXELS, PDF, "data:", "data:image/png;base64,iVBORw0KGgo", "\ud800", "https://a.b"]  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text() | st.sampled_from(WORDS)
)
BLOCKS = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=6
    ),
)


@given(BLOCKS, st.sampled_from(["auto", "area", "tiles", "patches", 7, PatchRule(low=256)]))
def test_any_block_is_read_without_an_error(block: dict[str, Any], rule: Any) -> None:
    media, stub = media_of(block), stub_of(block)
    without_data(block)
    assert (media is None) == (stub is None)
    if media is not None and stub is not None:
        assert media_of(stub) == media
        assert media_tokens(media, image=rule, **PRICES) >= 0


@given(st.integers(1, 65_535), st.integers(1, 65_535))
def test_tokens_stay_within_the_limits_of_the_rules(width: int, height: int) -> None:
    for rule, most in (("area", 4784), ("tiles", 85 + 8 * 170), ("patches", 1536)):
        assert 1 <= media_tokens(Media("image", width, height), image=rule, **PRICES) <= most


@given(
    st.binary(max_size=80), st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF", b"\xff\xd8", b"%PDF"])
)
def test_any_bytes_are_read_without_an_error(data: bytes, start: bytes) -> None:
    for kind in ("image", "document"):
        assert media_of({"type": kind, "data": text_of(start + data)}) is not None


def test_a_large_image_takes_no_longer_than_its_header() -> None:
    block = {"type": "image", "data": text_of(png(640, 480, bytes(1 << 20)))}
    media_of(block)
    start = perf_counter()
    for _ in range(100):
        media_of(block)
    assert perf_counter() - start < 0.1  # 5 ms here
