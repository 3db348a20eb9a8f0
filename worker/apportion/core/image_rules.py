"""Providers' documented rules for the tokens of an image by its width and height in pixels.

- `area`: Anthropic, "Vision" and "Coordinates and bounding boxes" (platform.claude.com, 2026). A token for each
  28 by 28 pixels. A larger image is scaled down to sides of 2,576 pixels and to 4,784 tokens. These are the
  limits of Claude 4.7 and later. The limits of earlier models are lower: 1,568 pixels and 1,568 tokens.
- `tiles`: OpenAI, "Images and vision" (platform.openai.com, 2025), GPT-4o and GPT-4.1. An image is scaled down
  to 2,048 by 2,048 pixels, then to a shorter side of 768. It costs 85 tokens, and 170 for each 512 by 512 pixels.
  With `detail: low`, it costs 85.
- `patches`: the same page, GPT-4.1 mini and similar models. A token for each 32 by 32 pixels. A larger image is
  scaled down to 1,536 tokens. Multipliers, which differ between models (1.2 to 2.46), are not applied.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import isqrt

LOW_TOKENS = 85
"""The tokens of an image with `detail: low` by the rule `tiles`."""
_AREA_SIDE, _AREA_PIXELS, _AREA_TOKENS = 28, 2576, 4784
_TILE_SIDE, _TILE_TOKENS = 512, 170
_PATCH_SIDE, _PATCH_TOKENS = 32, 1536


def _area(width: int, height: int) -> int:
    longer, shorter = max(width, height), min(width, height)

    def tokens(longer_scaled: int) -> int:
        shorter_scaled = max(1, _scaled(shorter, longer_scaled, longer))
        return _parts(longer_scaled, _AREA_SIDE) * _parts(shorter_scaled, _AREA_SIDE)

    sides = range(1, min(longer, _AREA_PIXELS) + 1)
    return tokens(bisect_right(sides, _AREA_TOKENS, key=tokens))


def _tiles(width: int, height: int) -> int:
    longer, shorter = max(width, height), min(width, height)
    if longer > 2048:  # noqa: PLR2004
        longer, shorter = 2048, _scaled(shorter, 2048, longer)
    if shorter > 768:  # noqa: PLR2004
        longer, shorter = _scaled(longer, 768, shorter), 768
    tiles = _parts(longer, _TILE_SIDE) * _parts(max(1, shorter), _TILE_SIDE)
    return LOW_TOKENS + _TILE_TOKENS * tiles


def _patches(width: int, height: int) -> int:
    columns, rows = _parts(width, _PATCH_SIDE), _parts(height, _PATCH_SIDE)
    if columns * rows > _PATCH_TOKENS:  # the documented scale makes one side a whole number of patches
        columns = max(1, isqrt(_PATCH_TOKENS * width // height))
        rows = max(1, isqrt(_PATCH_TOKENS * height // width))
        if columns * height <= rows * width:
            rows = _parts(columns * height, width)
        else:
            columns = _parts(rows * width, height)
    return min(_PATCH_TOKENS, columns * rows)


def _scaled(pixels: int, numerator: int, denominator: int) -> int:
    return (2 * pixels * numerator + denominator) // (2 * denominator)


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)


RULES: Mapping[str, Callable[[int, int], int]] = {"area": _area, "tiles": _tiles, "patches": _patches}
