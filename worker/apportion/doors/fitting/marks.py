"""Marks of a provider's cache in a fitted body, at the breakpoints of its decision.

The caller's marks stay and count against the most that a provider takes. The time to live of ours does not
rise along the prompt: it is at most that of a mark before it, and at least that of a mark after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from apportion.core.models import TTL_SECONDS, Ttl
from apportion.core.results import Breakpoint
from apportion.doors.fitting.shapes.form import SYSTEM, KeptMessage, SentMessage, ShapedChat

_MARKS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
_DEFAULT_TTL: Ttl = "5m"
_SYSTEM, _TOOLS = -1, -2
"""The positions of the system prompt and of tools, before the messages."""


def with_marks(
    chat: ShapedChat,
    sent: Sequence[SentMessage],
    system: Any,
    kept: Sequence[KeptMessage],
    points: Sequence[Breakpoint],
    *,
    marks_max: int,
) -> tuple[list[SentMessage], Any]:
    """Return the messages and the system prompt with a mark at the end of each breakpoint's last message.

    A message that may not have a mark leaves it to the message before it. `kept` are the composed items. Only
    breakpoints with a time to live become marks, and only the last ones: a body has at most `marks_max`.
    """
    marked = list(sent)
    places = {_place(chat, sent, kept, point): point.ttl for point in points if point.ttl}
    given = chat.given if isinstance(chat.given, Mapping) else {}
    tools = given.get("tools") or given.get("toolConfig") or ()
    own = [*_ttls(tools, _TOOLS), *_ttls(system, _SYSTEM)]
    for position, message in enumerate(sent):
        own += _ttls(message.message, position)
    own += _ttls({"cache_control": given.get("cache_control")}, len(sent))  # at the end, by the provider
    taken = {position for position, _ in own}
    free = [place for place in sorted(places) if place not in taken]
    for place in free[max(0, len(free) + len(own) - marks_max) :]:
        ttl = _fitting_ttl(own, place, str(places[place]))
        for at in range(place, _SYSTEM, -1):
            message = marked[at]
            item = chat.shape.marked(message.message, ttl)
            if item is not message.message:
                marked[at] = SentMessage(item, message.role, message.source)
                break
        else:
            system = chat.shape.marked_system(system, ttl)
    return marked, system


def _place(
    chat: ShapedChat, sent: Sequence[SentMessage], kept: Sequence[KeptMessage], point: Breakpoint
) -> int:
    """Return the position of the message with a breakpoint's last item; of the system prompt for `SYSTEM`."""
    source = chat.counted[kept[point.items - 1].index].source
    if source == SYSTEM:
        return _SYSTEM
    positions = [
        at for at, message in enumerate(sent) if message.source is not None and message.source <= source
    ]
    return positions[-1] if positions else _SYSTEM


def _ttls(value: Any, position: int) -> Iterator[tuple[int, str]]:
    """Yield the marks in a part of a body, each with its position and its time to live."""
    parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping):
        for name in _MARKS:
            if isinstance(mark := value.get(name), Mapping):
                yield position, str(mark.get("ttl", _DEFAULT_TTL))
    elif not isinstance(value, list | tuple):
        return
    for part in parts:
        if isinstance(part, Mapping | list):
            yield from _ttls(part, position)


def _fitting_ttl(own: Sequence[tuple[int, str]], place: int, ttl: str) -> str:
    def seconds(name: str) -> int:
        return TTL_SECONDS.get(name, 0)  # type: ignore[call-overload, no-any-return] # the caller's may be unknown

    after = [other for position, other in own if position > place]
    before = [other for position, other in own if position < place]
    ttl = max([ttl, *after], key=seconds)
    return min([ttl, *before], key=seconds)
