"""Shared parts of tests of bad input: valid documents with one defect at any place."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it is written, which need not be one."""

    text: str


def places(document: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every value in a document, but the document itself."""
    if place:
        yield place
    if isinstance(document, dict | list):
        parts = document.items() if isinstance(document, dict) else enumerate(document)
        for key, part in parts:
            yield from places(part, (*place, key))


@st.composite
def mutated(draw: st.DrawFn, documents: list[Any], literals: list[str], names: list[str]) -> Any:
    """Return one of the documents with one, two or three values replaced, left out, added or moved."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        *parents, key = draw(st.sampled_from(list(places(document))))
        parent = document
        for step in parents:
            parent = parent[step]
        literal = Literal(draw(st.sampled_from(literals)))
        match draw(st.sampled_from(["replace", "replace", "replace", "omit", "add", "move"])):
            case "replace":
                parent[key] = literal
            case "omit" if len(document) > 1:
                del parent[key]
            case "add" if isinstance(parent[key], dict):
                parent[key][draw(st.sampled_from(names))] = literal
            case "move":
                value = document
                for step in draw(st.sampled_from(list(places(document)))):
                    value = value[step]
                parent[key] = copy.deepcopy(value)
    return document
