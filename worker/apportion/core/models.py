"""The table of models: for each model its counter, its frame, its window and its cache.

ASCII letters of names are matched without case, and the first row with a matching pattern is taken.
"""

from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from string import ascii_lowercase, ascii_uppercase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from apportion.core.canonical_json import canonical_json
from apportion.core.digests import digest
from apportion.core.errors import ErrorCode, EventError
from apportion.core.image_rules import ImageRule
from apportion.core.results import ModelRef

Tokens = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Size = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Permille = Annotated[int, Meta(ge=0, le=1_000_000)]
Factor = Annotated[int, Meta(ge=100, le=10_000)]
Ttl: TypeAlias = Literal["5m", "30m", "1h", "24h"]
TTL_SECONDS: Mapping[Ttl, int] = {"5m": 300, "30m": 1_800, "1h": 3_600, "24h": 86_400}
RowName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9._-]{0,63}$")]
_FOUND_MAX = 1_000
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
Pattern = Annotated[str, Meta(min_length=1, max_length=128)]


class Frame(Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens that a provider adds to the texts of a body.

    `request` is added once, `tools` once if there are tools, the others for each of their kind.
    """

    request: Tokens = 0
    message: Tokens = 0
    call: Tokens = 0
    result: Tokens = 0
    tool: Tokens = 0
    tools: Tokens = 0


NO_FRAME = Frame()


class Scale(Struct, frozen=True, forbid_unknown_fields=True):
    """The provider's tokens for 1,000 of the counter's, by kind of part.

    `json` is for messages with tool calls and for results, `media` for media, `text` for all others.
    """

    text: Factor = 1_000
    json: Factor = 1_000
    media: Factor = 1_000


NO_SCALE = Scale()


class CacheRules(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider's cache of beginnings. Prices are thousandths of an uncached token's.

    With `matching = "marks"`, a beginning is cached up to a mark, and a later request finds it from its own
    marks. With `breakpoints`, both requests need the same breakpoint. With `prefix`, the longest common
    beginning is found, in steps of `step_tokens`. The keys of `write_permille` are the times to live.
    """

    matching: Literal["marks", "breakpoints", "prefix"]
    least_tokens: Tokens = 0
    step_tokens: Annotated[int, Meta(ge=1)] = 1
    marks: Tokens = 0
    write_permille: dict[Ttl, Permille] = {}
    read_permille: Permille = 1_000

    def ttl(self, seconds: int) -> Ttl | None:
        """Return the shortest time to live of so many seconds, or else the longest; None without marks."""
        if self.matching == "prefix" or not self.write_permille:
            return None
        ascending = sorted(self.write_permille, key=TTL_SECONDS.__getitem__)
        return next((ttl for ttl in ascending if TTL_SECONDS[ttl] >= seconds), ascending[-1])


class Model(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """A row of the table. Numbers that no source publishes are 0, and other fields None."""

    name: RowName
    names: Annotated[tuple[Pattern, ...], Meta(min_length=1)]
    """Patterns of model names, as of a shell."""
    provider: str
    counter: str
    shape: str | None = None
    window_tokens: Size = 0
    answer_tokens: Size = 0
    """The greatest answer."""
    image: Literal["area", "tiles", "patches"] | ImageRule | Size | None = None
    """The rule for images, or its name; see `core.image_rules`."""
    frame: Frame = Frame()
    scale: Scale | None = None
    """The correction of counts, as `apportion calibrate` learns it; None changes nothing."""
    cache: CacheRules | None = None
    source: str = ""
    checked: date | None = None
    """The day on which the source was read."""
    table: str = ""
    """The version of the row's table."""

    @cached_property
    def digest(self) -> str:
        """The digest of the row. Source, day and version are no part of it, because no rule reads them."""
        unread = {"source", "checked", "table", *(["scale"] if self.scale is None else [])}
        return digest(
            canonical_json({name: value for name, value in asdict(self).items() if name not in unread})
        )

    @cached_property
    def ref(self) -> ModelRef:
        """The reference to the row in a decision."""
        return ModelRef(name=self.name, table=self.table, digest=self.digest)

    def matches(self, name: str) -> bool:
        """Return whether a lower-cased name of a model is one of this row's."""
        return any(fnmatchcase(name, pattern.translate(_LOWER)) for pattern in self.names)


class Models(Struct, frozen=True, dict=True):
    """Rows of models, of which the first that matches is taken."""

    rows: tuple[Model, ...] = ()

    @cached_property
    def _found(self) -> dict[str, Model | None]:
        return {}

    def find(self, name: str) -> Model | None:
        """Return the row of a model's name, or None."""
        found = self._found
        if name not in found:
            if len(found) >= _FOUND_MAX:
                found.clear()
            lowered = name.translate(_LOWER)
            found[name] = next((row for row in self.rows if row.matches(lowered)), None)
        return found[name]

    def counters_of(self, provider: str) -> set[str]:
        """Return the counters of a provider's models."""
        return {row.counter for row in self.rows if row.provider == provider}

    def row(self, name: str, pointer: str) -> Model:
        """Return the row of a model's name, which stands at a place of an event.

        Raises:
            EventError: no row matches; the message lists near names.
        """
        row = self.find(name)
        if row is None:
            names = [each.name for each in self.rows]
            near = get_close_matches(name.translate(_LOWER), names, 3)
            hint = f"the nearest are {', '.join(near)}; " if near else ""
            text = f"the table of models has no row for this model; {hint}add a row in models_file"
            raise EventError(ErrorCode.UNKNOWN_MODEL, text, pointer)
        return row
