"""A script for any Python: results of the rules over texts, as one digest for each rule.

    python rules_over_text.py WORKER < texts.json

It needs no package: empty shells replace the rules' imports from outside the standard library. Only modules
that work with these shells can be tested.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock


class Struct:
    """A struct without checks: its fields by place or by name."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Take what msgspec's takes."""

    def __init__(self, *values: Any, **named: Any) -> None:
        """Set the fields."""
        for name, value in (*zip(type(self).__annotations__, values, strict=False), *named.items()):
            setattr(self, name, value)


def stand_in(worker: Path) -> None:
    """Make the packages and the empty shells importable, without running the packages' own imports."""
    for name in ("apportion", "apportion.core"):
        package = ModuleType(name)
        package.__path__ = [str(worker.joinpath(*name.split(".")))]
        sys.modules[name] = package
    sys.modules["msgspec"] = MagicMock(Struct=Struct, UnsetType=type("UnsetType", (), {}))
    sys.modules["rfc8785"] = MagicMock()


def rules() -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yield each rule by its name."""
    from apportion.core import path_ids, shrink  # noqa: PLC0415 - see above
    from apportion.core.candidates.glob import Globs, Paths  # noqa: PLC0415 - likewise
    from apportion.core.errors import EventError  # noqa: PLC0415 - likewise
    from apportion.core.text import characters, cut, reckoning, tokens  # noqa: PLC0415 - see above

    yield "small letters", characters.lowered
    yield "white space", lambda text: text.strip(characters.SPACE_OR_SEPARATOR)
    yield "seams", reckoning.last_seam
    yield "cuts", lambda text: cut.cut_to_fit(text, lambda form: len(form) <= 2 * len(text) // 3)
    for counter in tokens.ESTIMATORS:
        yield counter.name, counter.count
    for strategy in shrink.ShrinkStrategy:

        def shrunk(text: str, strategy: shrink.ShrinkStrategy = strategy) -> list[str | None]:
            ladder = shrink.ladder(strategy, text, len) if text else None
            forms = (ladder.within(target) for target in (9, 60, 2 * len(text) // 3)) if ladder else ()
            return [None if form is None else form.text for form in forms]

        yield strategy.value, shrunk

    def path(text: str) -> str | None:
        try:
            normal = path_ids.normalised_path(text, "$")
        except EventError:
            return None
        return path_ids.path_id(b"secret", normal, "kind", "lane", 0)

    def globs(text: str) -> list[bool | None]:
        return [matches(pattern, text) for pattern in ("**/*", "[!a-z]*", "?", "*[\u0100-\uffff]*", text)]

    def matches(pattern: str, text: str) -> bool | None:
        try:
            return bool(Globs([(0, pattern, "$")]).match(Paths([text])).matched)
        except EventError:
            return None

    yield "paths", path
    yield "globs", globs


def digest(values: list[Any]) -> str:
    """Return the digest of a list of JSON values."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


if __name__ == "__main__":
    given = json.load(sys.stdin.buffer)
    stand_in(Path(sys.argv[1]))
    from apportion.core.canonical_json import thousandths

    digests = {name: digest(list(map(rule, given["texts"]))) for name, rule in rules()}
    digests["thousandths"] = digest(list(map(thousandths, given["numbers"])))
    json.dump(digests, sys.stdout)
