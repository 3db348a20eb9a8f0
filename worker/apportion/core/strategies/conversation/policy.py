"""The policy of strategy `conversation`: the parts of the total. The defaults are the source's numbers."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from apportion.core.policy import Count, Policy, PolicyTable, Problem, integer

DEFAULT_TOTAL_TOKENS = 100_000


class ConversationTable(PolicyTable):
    """`[conversation]`: the parts, what a message costs beside its content, and whether gaps are allowed."""

    system_tokens: Count = 10_000
    messages_tokens: Count = 50_000
    response_tokens: Count = 40_000
    message_overhead_tokens: Count = 4
    gaps: bool = False


class Parts(Struct, frozen=True):
    """A total and what is meant for whom; the response's part stays empty for the model to fill."""

    total_tokens: int
    system_tokens: int
    messages_tokens: int
    response_tokens: int


class ConversationPolicy(Policy):
    """A policy of strategy `conversation`."""

    own_backoff: ClassVar[bool] = False

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    conversation: ConversationTable = ConversationTable()

    def parts(self, total_tokens: int) -> Parts:
        """Return the parts of a total: of another than the policy's own, floor(part · t / total) each.

        The response gets the rest. A policy whose own total is 0 scales by the sum of its parts.
        """
        own = self.conversation
        system, messages, response = own.system_tokens, own.messages_tokens, own.response_tokens
        if total_tokens != self.budget_tokens:
            own_total = self.budget_tokens or system + messages + response or 1
            system = system * total_tokens // own_total
            messages = messages * total_tokens // own_total
            response = total_tokens - system - messages
        return Parts(total_tokens, system, messages, response)

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield parts that add up to more than the total."""
        yield from super().cross_check(raw)
        table = raw.get("conversation")
        defaults = ConversationTable()
        parts = 0
        for key in ("system_tokens", "messages_tokens", "response_tokens"):
            given = integer(table, key)
            parts += getattr(defaults, key) if given is None else given
        total = integer(raw, "budget_tokens")
        total = DEFAULT_TOTAL_TOKENS if total is None else total
        if 0 < total < parts:
            yield Problem("conversation", f"the parts add up to {parts}, above the total {total}")
