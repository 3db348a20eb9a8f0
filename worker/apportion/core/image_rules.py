"""Providers' documented rules for the tokens of an image by its width and height in pixels.

- `area`: Anthropic, "Vision" and "Coordinates and bounding boxes" (platform.claude.com, 2026). A token for
  each 28 by 28 pixels. A larger image is scaled down to sides of 2,576 pixels and to 4,784 tokens. These are
  the limits of Claude 4.7 and later. The limits of earlier models are lower: 1,568 pixels and tokens.
- `tiles`: OpenAI, "Images and vision" (developers.openai.com, 2026). An image is scaled down to 2,048 by
  2,048 pixels, then to a shorter side of 768. It costs 85 tokens, and 170 for each 512 by 512 pixels. With
  `detail: low`, it costs 85. These are the numbers of GPT-4o and GPT-4.1.
- `patches`: the same page. A token for each 32 by 32 pixels. A larger image is scaled down to a side, then
  to a number of patches. The tokens are multiplied. Without other numbers, the rule has no side, 1,536
  patches (the page of 2025) and no multiplier.

A row of the table of models may replace the numbers of a rule.
"""

from bisect import bisect_right
from collections.abc import Mapping
from math import isqrt
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, Struct

Limit = Annotated[int, Meta(ge=1, le=65_535)]
"""A limit of pixels or tokens. No image has a longer side."""
ImageTokens = Annotated[int, Meta(ge=0, le=1_000_000)]
_AREA_SIDE, _TILE_SIDE, _PATCH_SIDE = 28, 512, 32


class AreaRule(Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="area"):
    """The rule `area`: a token for each cell of an image within `side` pixels, and at most `tokens`."""

    side: Limit = 2576
    tokens: Limit = 4784
    low_tokens: ClassVar[int] = 0

    def count(self, width: int, height: int) -> int:
        """Return the tokens of an image."""
        longer, shorter = max(width, height), min(width, height)

        def tokens(longer_scaled: int) -> int:
            shorter_scaled = max(1, _scaled(shorter, longer_scaled, longer))
            return _parts(longer_scaled, _AREA_SIDE) * _parts(shorter_scaled, _AREA_SIDE)

        sides = range(1, min(longer, self.side) + 1)
        return tokens(bisect_right(sides, self.tokens, key=tokens))


class TileRule(Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="tiles"):
    """The rule `tiles`: `base` tokens for an image, and `tile` tokens for each tile."""

    base: ImageTokens = 85
    tile: Annotated[int, Meta(ge=1, le=1_000_000)] = 170

    @property
    def low_tokens(self) -> int:
        """The tokens of an image with `detail: low`, of any size."""
        return self.base

    def count(self, width: int, height: int) -> int:
        """Return the tokens of an image."""
        longer, shorter = max(width, height), min(width, height)
        if longer > 2048:  # noqa: PLR2004
            longer, shorter = 2048, _scaled(shorter, 2048, longer)
        if shorter > 768:  # noqa: PLR2004
            longer, shorter = _scaled(longer, 768, shorter), 768
        return self.base + self.tile * _parts(longer, _TILE_SIDE) * _parts(max(1, shorter), _TILE_SIDE)


class PatchRule(Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="patches"):
    """The rule `patches`: at most `budget` patches of an image within `side` pixels, multiplied.

    `permille` are thousandths. With `detail: low`, an image has at most `low` patches; 0: as otherwise.
    """

    budget: Limit = 1536
    side: Limit = 65_535
    permille: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    low: ImageTokens = 0

    @property
    def low_tokens(self) -> int:
        """The greatest number of tokens of an image with `detail: low`; 0: the same as otherwise."""
        return self._multiplied(self.low) if self.low else 0

    def count(self, width: int, height: int) -> int:
        """Return the tokens of an image."""
        longer = max(width, height)
        if longer > self.side:
            width, height = (max(1, _scaled(pixels, self.side, longer)) for pixels in (width, height))
        columns, rows = _parts(width, _PATCH_SIDE), _parts(height, _PATCH_SIDE)
        if columns * rows > self.budget:  # the documented scale makes one side a whole number of patches
            columns = max(1, isqrt(self.budget * width // height))
            rows = max(1, isqrt(self.budget * height // width))
            if columns * height <= rows * width:
                rows = _parts(columns * height, width)
            else:
                columns = _parts(rows * width, height)
        return self._multiplied(min(self.budget, columns * rows))

    def _multiplied(self, patches: int) -> int:
        # OpenAI rounds up a float product, which may be one token more than the exact product rounded up.
        return patches if self.permille == 1_000 else patches * self.permille // 1_000 + 1  # noqa: PLR2004


def _scaled(pixels: int, numerator: int, denominator: int) -> int:
    return (2 * pixels * numerator + denominator) // (2 * denominator)


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)


ImageRule: TypeAlias = AreaRule | TileRule | PatchRule
RULES: Mapping[str, ImageRule] = {"area": AreaRule(), "tiles": TileRule(), "patches": PatchRule()}
