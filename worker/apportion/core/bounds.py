"""The bounds of an event. Everything has one; over it, the event is a dead letter. Each is a setting."""

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """How large an event and its parts may be; the units stand last in the names."""

    event_max_bytes: int = 1 << 20
    candidates_max: int = 10_000
    messages_max: int = 10_000
    constraints_max: int = 1_000
    id_max_characters: int = 256
    name_max_characters: int = 256
    tag_max_characters: int = 64
    tags_max: int = 32
    nesting_max: int = 32
