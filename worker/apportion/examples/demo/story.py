"""What the demo's worker is asked: sessions of every strategy, side by side, over the same moments.

Decides who asks at which moment, and what is on its way when the worker is killed. Never composes.
"""

import json
from collections.abc import Iterable
from importlib import resources
from itertools import chain

from msgspec import Struct

from apportion.core.policy import Policy
from apportion.examples.workload.sessions import Event, briefing, chat, habits, recall, review
from apportion.policies import load_policy

_ROUNDS = 8
"""So many moments are everybody's; those after them are the agent's alone."""
_REFUSED_ROUND = 1


class Story(Struct, frozen=True):
    """Events in their order: before the worker is killed, on their way then, and after it.

    `refused` of them are wrong, and are to be told so.
    """

    before: tuple[bytes, ...]
    during: tuple[bytes, ...]
    after: tuple[bytes, ...]
    refused: int


def briefing_policy() -> Policy:
    """Return the policy that the demo publishes: of strategy `layers`, with sessions that run out."""
    return load_policy(resources.files(__package__) / "briefing.toml")


def story_of(moments: Iterable[bytes]) -> Story:
    """Return what is asked about moments, which are requests of strategy `lanes`; there is one at least."""
    policy = briefing_policy().name
    rounds = [_round(number, value, policy) for number, value in enumerate(moments)]
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
        asked = [review(moment), recall(moment)]
    else:
        asked = [briefing(moment, policy), habits(moment), chat(moment)]
    if number == _REFUSED_ROUND:
        asked.append(review(moment) | {"budget_tokens": "4000"})
    return (value, *(json.dumps(one).encode() for one in asked))
