"""The built-in table of models, and tables of users in the same form."""

import tomllib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from apportion.core.models import Model, Models
from apportion.core.text.tokens import OWN_COUNTER, CounterName, ModelCounter

_COUNTERS = (*CounterName, *ModelCounter)


class ModelsError(Exception):
    """A refused table of models."""

    code = "invalid_models"
    exit_code = 2


class _Table(Struct, forbid_unknown_fields=True):
    version: str
    models: tuple[Model, ...] = ()


@cache
def builtin_models() -> Models:
    """Return the built-in models."""
    return Models(_rows_of(resources.files(__name__) / "table.toml"))


def load_models(file: Path | None) -> Models:
    """Return the built-in models, and before them the models of a file.

    Raises:
        ModelsError: the file is no table of models. The error has its name and the place.
        OSError: the file cannot be read.
    """
    builtin = builtin_models()
    return builtin if file is None else Models((*_rows_of(file), *builtin.rows))


def _rows_of(file: Traversable | Path) -> tuple[Model, ...]:
    try:
        table = convert(tomllib.loads(file.read_bytes().decode()), _Table)
    except (ValueError, RecursionError) as error:  # msgspec's error is a ValueError
        problem = str(error) if isinstance(error, ValidationError) else f"not TOML in UTF-8: {error}"
        raise ModelsError(f"{file}: {problem}") from None
    for row in table.models:
        if row.counter not in _COUNTERS and not OWN_COUNTER.fullmatch(row.counter):
            known = f"name one of {', '.join(_COUNTERS)}, or file:NAME"
            raise ModelsError(f"{file}: row {row.name}: there is no counter {row.counter}; {known}")
        if 0 < row.window_tokens <= row.answer_tokens:
            problem = f"answer_tokens {row.answer_tokens} leave nothing of window_tokens {row.window_tokens}"
            raise ModelsError(f"{file}: row {row.name}: {problem}; correct one, or leave it out")
    names = [row.name for row in table.models]
    for name in names:
        if names.count(name) > 1:
            raise ModelsError(f"{file}: two rows are named {name}; give each row its own name")
    return tuple(replace(row, table=table.version) for row in table.models)
