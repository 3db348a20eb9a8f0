"""The events of the demo, before, during and after a kill: sessions of every strategy about one history."""

import json
from collections.abc import Iterable
from importlib import resources
from itertools import chain

from msgspec import Struct

from apportion.core.strategy_api.policy import Policy
from apportion.demo.workload.sessions import Event, ToolChat, briefing, chat, habits, recall, review
from apportion.engine.policies import load_policy

_ROUNDS = 8
"""Number of moments about which other sessions send requests; later ones only have agent and assistant."""
_REFUSED_ROUND = 1


class Story(Struct, frozen=True):
    """Events in their order: before the worker is killed, in flight at that time, and after it.

    `refused` of them are invalid, and become dead letters.
    """

    before: tuple[bytes, ...]
    during: tuple[bytes, ...]
    after: tuple[bytes, ...]
    refused: int


def demo_policies() -> dict[str, Policy]:
    """Return the policies that the demo publishes, by file. Sessions of the briefing run out of tokens."""
    files = ("briefing.toml", "assistant.toml")
    return {file: load_policy(resources.files(__package__) / file) for file in files}


def story_of(moments: Iterable[bytes]) -> Story:
    """Return the events about moments, which are one or more requests of strategy `lanes`."""
    briefing, assistant = (policy.name for policy in demo_policies().values())
    tool_chat = ToolChat(assistant)
    rounds = [
        (*_round(number, value, briefing), json.dumps(tool_chat.ask(json.loads(value))).encode())
        for number, value in enumerate(moments)
    ]
    middle = len(rounds) // 2
    return Story(
        before=tuple(chain.from_iterable(rounds[:middle])),
        during=rounds[middle],
        after=tuple(chain.from_iterable(rounds[middle + 1 :])),
        refused=1 if len(rounds) > _REFUSED_ROUND else 0,
    )


def _round(number: int, value: bytes, policy: str) -> tuple[bytes, ...]:
    """Return the events of a moment, beginning with the moment itself; `policy` is for briefings."""
    if number >= _ROUNDS:
        return (value,)
    moment: Event = json.loads(value)
    if number % 2:
        requests = [review(moment), recall(moment)]
    else:
        requests = [briefing(moment, policy), habits(moment), chat(moment)]
    if number == _REFUSED_ROUND:
        requests.append(review(moment) | {"budget_tokens": "4000"})
    return (value, *(json.dumps(request).encode() for request in requests))
