"""The events of the demo: sessions of every strategy, side by side, about the same moments of a history.

It also determines which events are in flight when the worker is killed.
"""

import json
from collections.abc import Iterable
from importlib import resources
from itertools import chain

from msgspec import Struct

from apportion.core.strategy_api.policy import Policy
from apportion.demo.workload.sessions import Event, ToolChat, briefing, chat, habits, recall, review
from apportion.engine.policies import load_policy

_ROUNDS = 8
"""Number of moments with requests of all sessions; after them there are only the agent and the assistant."""
_REFUSED_ROUND = 1


class Story(Struct, frozen=True):
    """Events in their order: before the worker is killed, in flight at that time, and after it.

    `refused` of them are invalid, and become dead letters.
    """

    before: tuple[bytes, ...]
    during: tuple[bytes, ...]
    after: tuple[bytes, ...]
    refused: int


def briefing_policy() -> Policy:
    """Return the policy that the demo publishes: of strategy `layers`, with sessions that run out."""
    return load_policy(resources.files(__package__) / "briefing.toml")


def assistant_policy() -> Policy:
    """Return the policy that the demo publishes for a long chat with tools."""
    return load_policy(resources.files(__package__) / "assistant.toml")


def story_of(moments: Iterable[bytes]) -> Story:
    """Return what is asked about moments, which are requests of strategy `lanes`; there is one at least."""
    policy, assistant = briefing_policy().name, ToolChat(assistant_policy().name)
    rounds = [
        (*_round(number, value, policy), json.dumps(assistant.ask(json.loads(value))).encode())
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
    """Return the events of a moment, the moment itself first; `policy` is that of briefings."""
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
