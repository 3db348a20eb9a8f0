"""Bounds of an event's size. An event over a bound becomes a dead letter. Each bound is a setting."""

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """Upper bounds of an event and its parts; each name ends in its unit."""

    event_max_bytes: int = 1 << 20
    candidates_max: int = 10_000
    messages_max: int = 10_000
    tools_max: int = 2_000
    constraints_max: int = 1_000
    id_max_characters: int = 256
    name_max_characters: int = 256
    tag_max_characters: int = 64
    tags_max: int = 32
    nesting_max: int = 32
    query_max_characters: int = 16_384
