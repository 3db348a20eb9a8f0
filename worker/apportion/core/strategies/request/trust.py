"""The share of the limit for all items with a trust of 0, in any part of a request.

Items that must be sent count first, and are never left out. Then messages are kept from the newest one on, up
to the first that exceeds the share, and candidates by rank, each that fits.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.results import Bound
from apportion.core.strategies.conversation import PreparedChat
from apportion.core.strategies.conversation.verdicts import MESSAGES
from apportion.core.strategies.request.own_part import RequestTask
from apportion.core.strategy_api.verdict import Verdict, Verdicts
from apportion.core.text.scaled_counter import WHOLE, scale_tokens

_ROUNDS, _ROUNDS_MAX = 3, 6
"""The compositions before no further candidate may be sent, and before none that need not be sent."""


class Untrusted:
    """The untrusted items of one request."""

    def __init__(self, task: RequestTask) -> None:
        self._task, self._table = task, task.policy.trust
        self._most_tokens = task.limit_tokens * self._table.untrusted_share // WHOLE
        conversation = task.own.conversation.conversation
        self._given = {each.index: each.trust for each in conversation.trust or ()}
        self._last = len(conversation.messages)
        """The index of the new message in the given chat."""

    def history(self, chat: PreparedChat, room: int) -> Verdicts:
        """Return the chat in its room, without untrusted messages beyond the share."""
        answer, out = chat.compose(room), frozenset[int]()
        if self._table.untrusted_share == WHOLE:
            return answer
        always = frozenset([chat.order[index] for index in chat.counted.mandatory])
        while more := self._beyond(answer, always):
            chat, left_out = chat.without(more)
            if left_out <= out:
                break
            out, answer = out | left_out, chat.compose(room)
        for verdict in answer.verdicts:
            if verdict.bound is Bound.GROUP and self._index(verdict) in out:
                verdict.bound = Bound.UNTRUSTED
        return answer

    def material(
        self, compose: Callable[[RequestTask], Verdicts | None], history: Verdicts
    ) -> Verdicts | None:
        """Return the material, without untrusted candidates beyond the rest of the share."""
        task, material = self._task, compose(self._task)
        if self._table.untrusted_share == WHOLE or material is None:
            return material
        most = self._most_tokens - self._tokens_of(history)
        distrusted = self._distrusted()
        # an older candidate of a subject does not return if the newest one is left out
        superseded = {each.id: each.superseded_by for each in material.verdicts if each.superseded_by}
        bounds = dict.fromkeys(superseded, Bound.SUBJECT)
        for number in count(1):
            sent = [each for each in material.verdicts if each.fidelity is not None and each.id in distrusted]
            left, out = most, set[str]()
            for verdict in sorted(sent, key=lambda verdict: not verdict.constraint):
                tokens = scale_tokens(verdict.tokens, task.scale.text)
                if tokens <= left or verdict.constraint:
                    left -= tokens
                else:
                    out.add(verdict.id)
            if not out:
                break
            if number >= _ROUNDS:  # no other candidate takes the room of these
                kept = {each.id for each in sent if each.constraint or number < _ROUNDS_MAX} - out
                out = distrusted - kept
            bounds |= dict.fromkeys(out, Bound.UNTRUSTED)
            candidates = [
                each if each.bound is not None else replace(each, bound=bounds.get(each.id))
                for each in task.candidates
            ]
            task = replace(task, candidates=tuple(candidates))
            material = compose(task)
            assert material is not None, "the request has candidates"
            for verdict in material.verdicts:
                verdict.superseded_by = superseded.get(verdict.id, "")
        return material

    def _distrusted(self) -> set[str]:
        """Return the ids of untrusted candidates; a candidate inherits the distrust in its subject."""
        by_subject: dict[Any, int] = {}
        trusts = []
        for candidate in self._task.candidates:
            facts = candidate.facts
            default = self._table.kinds.get(candidate.kind, self._table.default)
            trust = default if facts.trust is UNSET else facts.trust
            trusts.append(trust)
            if facts.subject is not UNSET:
                by_subject[facts.subject] = min(trust, by_subject.get(facts.subject, trust))
        return {
            candidate.id
            for candidate, trust in zip(self._task.candidates, trusts, strict=True)
            if not min(trust, by_subject.get(candidate.facts.subject, trust))
        }

    def _beyond(self, answer: Verdicts, always: frozenset[int]) -> set[int]:
        """Return the untrusted messages beyond the share: the newest such message, and all older ones."""
        untrusted = {
            self._index(verdict): verdict
            for verdict in answer.verdicts
            if verdict.group == MESSAGES and not self._trust(verdict)
        }
        sent = {index: verdict.tokens for index, verdict in untrusted.items() if verdict.fidelity is not None}
        left = self._most_tokens - sum([tokens for index, tokens in sent.items() if index in always])
        for index in sorted(sent.keys() - always, reverse=True):
            left -= sent[index]
            if left < 0:
                return {other for other in untrusted if other <= index} - always
        return set()

    def _tokens_of(self, history: Verdicts) -> int:
        sent = [verdict for verdict in history.standing if verdict.group == MESSAGES]
        return sum([verdict.tokens for verdict in sent if not self._trust(verdict)])

    def _trust(self, verdict: Verdict) -> int:
        default = self._table.roles.get(verdict.kind, self._table.default)
        return self._given.get(self._index(verdict), default)

    def _index(self, verdict: Verdict) -> int:
        """Return the index of a message in the given chat."""
        name = verdict.id.removeprefix(f"{MESSAGES}/")
        return int(name) if name != verdict.id else self._last
