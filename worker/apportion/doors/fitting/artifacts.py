"""Artifacts of a call as candidates. Their relevances are any finite numbers."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, SupportsFloat, TypeAlias

from msgspec import ValidationError, convert, to_builtins

from apportion.core.errors import ErrorCode
from apportion.core.events import Candidate
from apportion.core.wire.refusal import refusal
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import without_surrogates

Artifacts: TypeAlias = Iterable[Candidate | Mapping[str, Any]]
_ALL = 1_000
_ID_CHARACTERS = 32
_FIELDS = {"$": Candidate.__struct_fields__}


def candidates_of(artifacts: Artifacts) -> list[Candidate]:
    """Return artifacts as candidates, with relevances from 0 to 1.

    Raises:
        FitError: an artifact is no candidate, or its relevance is not a finite number.
    """
    fields: list[Mapping[str, Any]] = []
    for index, given in enumerate(artifacts):
        if not isinstance(given, Candidate | Mapping):
            message = "an artifact is a Candidate, or a mapping with some of its fields, such as content"
            raise FitError(ErrorCode.WRONG_TYPE, message, f"$.artifacts[{index}]")
        own = to_builtins(given) if isinstance(given, Candidate) else given
        fields.append(
            {
                name: without_surrogates(value) if isinstance(value, str) else value
                for name, value in own.items()
            }
        )
    return [_candidate(*pair) for pair in enumerate(with_relevance(fields))]


def _candidate(index: int, fields: Mapping[str, Any]) -> Candidate:
    """Return an artifact as a candidate, or raise FitError. Its default id depends on its content alone."""
    content = fields.get("content")
    made = {"kind": "semantic_match", "lane": "retrieved"}
    if isinstance(content, str):
        digest = hashlib.sha256(content.encode())
        made["id"] = digest.hexdigest()[:_ID_CHARACTERS]
    try:
        return convert({**made, **fields}, Candidate)
    except ValidationError as error:
        refused = refusal(str(error), _FIELDS)
        pointer = f"$.artifacts[{index}]" + refused.pointer.removeprefix("$")
        raise FitError(refused.code, refused.message, pointer) from None


def with_relevance(artifacts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the artifacts with a relevance from 0 to 1.

    If a number is outside of 0 to 1, the numbers are mapped by rank to thousandths: the highest to 1, the
    lowest of several to 0, and equal numbers to equal ones. Artifacts without a relevance stay without it.

    Raises:
        FitError: a relevance is no number, or not finite.
    """
    numbers = {
        index: _number(index, artifact["relevance"])
        for index, artifact in enumerate(artifacts)
        if artifact.get("relevance") is not None
    }
    values = numbers
    if any(not 0 <= number <= 1 for number in numbers.values()):
        order = sorted(set(numbers.values()))
        last = max(1, len(order) - 1)
        shares = {number: _ALL * rank // last / _ALL for rank, number in enumerate(order)}
        shares[order[-1]] = 1.0
        values = {index: shares[number] for index, number in numbers.items()}
    return [
        {**artifact, "relevance": values[index]} if index in values else dict(artifact)
        for index, artifact in enumerate(artifacts)
    ]


def _number(index: int, given: object) -> float:
    pointer = f"$.artifacts[{index}].relevance"
    if isinstance(given, bool | str | bytes) or not isinstance(given, SupportsFloat):
        raise FitError(ErrorCode.WRONG_TYPE, "use a number", pointer)
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise FitError(ErrorCode.INVALID_VALUE, "use a finite number", pointer)
    return number
