"""The policy of strategy `conversation`. The defaults of the parts are the source's numbers."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

from msgspec import Struct
from pydantic import Field

from apportion.core.events import MAX_INTEGER
from apportion.core.strategy_api.policy import (
    AddedLater,
    Count,
    OwnName,
    Policy,
    PolicyTable,
    Problem,
    Thousandths,
    integer,
)

DEFAULT_TOTAL_TOKENS = 100_000


class ConversationTable(PolicyTable):
    """`[conversation]`: the parts, and the overhead of a message.

    With `gaps`, messages before the first that does not fit may still be sent.
    """

    system_tokens: Count = 10_000
    messages_tokens: Count = 50_000
    response_tokens: Count = 40_000
    message_overhead_tokens: Count = 4
    gaps: bool = False


class WindowPolicy(PolicyTable):
    """`[prefix]`: a history with a stable beginning. Slack 0: off.

    A new cut leaves `slack` thousandths of the history's room free. After `ttl_s` of event time a provider's
    cache is cold.
    """

    slack: Annotated[int, Field(ge=0, le=900)] = 0
    ttl_s: Annotated[int, Field(ge=1, le=MAX_INTEGER)] = 300


class ToolResultsPolicy(PolicyTable):
    """`[tool_results]`: clearing of old tool results, if the table is given.

    The newest `keep` results and the results of the tools in `exclude` are never cleared. If a
    history costs more than `trigger` thousandths of its room, and clearing frees at least `clear_at_least`
    tokens, it is cleared.
    """

    keep: Count = 3
    trigger: Thousandths = 600
    clear_at_least: Count = 1_000
    exclude: tuple[OwnName, ...] = Field((), strict=False)


class Parts(Struct, frozen=True):
    """A total and its parts; the response's part is left to the model."""

    total_tokens: int
    system_tokens: int
    messages_tokens: int
    response_tokens: int


class ConversationPolicy(Policy):
    """A policy of strategy `conversation`."""

    own_backoff: ClassVar[bool] = False

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    conversation: ConversationTable = ConversationTable()
    prefix: AddedLater[WindowPolicy] = WindowPolicy()
    tool_results: AddedLater[ToolResultsPolicy | None] = None

    @cached_property
    def prefix_ttl_s(self) -> int:
        """The seconds of event time for which a provider caches a text's beginning; 0: no stable window."""
        return self.prefix.ttl_s if self.prefix.slack else 0

    @cached_property
    def reads_sequence(self) -> bool:
        """Whether a composition depends on the answer's number: a window names the answer of its cut."""
        return self.prefix.slack > 0

    def parts(self, total_tokens: int) -> Parts:
        """Return the parts of a total.

        For a total t other than the policy's own, system and messages get floor(part · t / own total), and
        the response gets the rest. If the own total is 0, the sum of the policy's parts replaces it.
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
        """Yield a problem if the parts exceed the total together, or if a stable window has `gaps`."""
        yield from super().cross_check(raw)
        table = raw.get("conversation")
        defaults = ConversationTable()
        parts = 0
        for key in ("system_tokens", "messages_tokens", "response_tokens"):
            given = integer(table, key)
            parts += getattr(defaults, key) if given is None else given
        if integer(raw.get("prefix"), "slack") and isinstance(table, Mapping) and table.get("gaps") is True:
            reason = "breaks what [prefix] holds; leave it out, or set prefix.slack to 0"
            yield Problem("conversation.gaps", reason)
        total = integer(raw, "budget_tokens")
        total = DEFAULT_TOTAL_TOKENS if total is None else total
        if 0 < total < parts:
            yield Problem("conversation", f"the parts add up to {parts}, above the total {total}")
