"""The policy of strategy `conversation`. The defaults of the parts are the source's numbers."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Struct
from pydantic import Field

from apportion.core.events import MAX_INTEGER
from apportion.core.media import Media, media_tokens
from apportion.core.models import Model
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

    With `gaps`, messages before the first that does not fit may still be sent. With `whole_system_prompt`,
    the system prompt is always sent whole, and uses the part of the messages. With `repair`, messages that no
    provider accepts are left out, and a call is sent directly before its results; see module `repair`.
    """

    system_tokens: Count = 10_000
    messages_tokens: Count = 50_000
    response_tokens: Count = 40_000
    message_overhead_tokens: Count = 4
    gaps: bool = False
    whole_system_prompt: AddedLater[bool] = False
    repair: AddedLater[bool] = False


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
    fill: AddedLater[Thousandths] = 0


class MediaPolicy(PolicyTable):
    """`[media]`: the tokens of images, documents and audio; see `core.media` for the rules of images.

    If the table is given, old media are cleared in the steps of `[tool_results]`. The newest `keep` media of
    the history are not cleared, unless `[shorten]` is given and their message alone exceeds `newest_tokens`.
    """

    image: Literal["auto", "area", "tiles", "patches"] | Count = "auto"
    document: Count = 1_500
    audio: Count = 1_000
    unknown_tokens: Count = 2_000
    keep: Count = 3


class ShortenPolicy(PolicyTable):
    """`[shorten]`: the largest texts and results, once a history does not fit whole. 0: off.

    `message_tokens` bounds each message of the history, `newest_tokens` each message that is always sent, and
    the results of one message's calls together. Both scale with the total, as the parts do.
    """

    message_tokens: Count = 0
    newest_tokens: Count = 0


class Parts(Struct, frozen=True):
    """A total and its parts; the response's part is left to the model."""

    total_tokens: int
    system_tokens: int
    messages_tokens: int
    response_tokens: int


class HistoryTables(PolicyTable):
    """The tables that a policy of a conversation and a request's `[history]` share."""

    prefix: AddedLater[WindowPolicy] = WindowPolicy()
    tool_results: AddedLater[ToolResultsPolicy | None] = None
    media: AddedLater[MediaPolicy | None] = None
    shorten: AddedLater[ShortenPolicy] = ShortenPolicy()


class ConversationPolicy(HistoryTables, Policy):
    """A policy of strategy `conversation`."""

    own_backoff: ClassVar[bool] = False

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    conversation: ConversationTable = ConversationTable()

    def media_tokens(self, media: Media) -> int:
        """Return the cost of a medium; without `[media]`, by the defaults of the table."""
        table = self.media_rules
        return media_tokens(
            media,
            image=table.image,
            document=table.document,
            audio=table.audio,
            unknown_tokens=table.unknown_tokens,
        )

    @cached_property
    def media_rules(self) -> MediaPolicy:
        """The rules of `[media]`, or the defaults."""
        return self.media or MediaPolicy()

    def for_model(self, model: Model) -> Self:
        """Return the policy with a model's overhead of messages, and its rule for images instead of `auto`.

        Without a known overhead of the model, the policy's holds.
        """
        rules = self.media_rules
        if rules.image == "auto" and model.image is not None:
            rules = rules.model_copy(update={"image": model.image})
        overhead_tokens = model.frame.message or self.conversation.message_overhead_tokens
        table = self.conversation.model_copy(update={"message_overhead_tokens": overhead_tokens})
        return self.model_copy(update={"conversation": table, "media_rules": rules})

    @property
    def compares_messages(self) -> bool:
        """True if a stable window compares texts message by message, because more than results change."""
        return self.media is not None or self.shorten != ShortenPolicy()

    def scaled(self, tokens: int, total_tokens: int) -> int:
        """Return a number of tokens of the policy's own total as a part of another total."""
        return tokens * total_tokens // (self.budget_tokens or DEFAULT_TOTAL_TOKENS)

    @cached_property
    def prefix_ttl_s(self) -> int:
        """The seconds of event time for which a provider caches a text's beginning; 0: no stable window."""
        return self.prefix.ttl_s if self.prefix.slack else 0

    @cached_property
    def reads_sequence(self) -> bool:
        """True if a composition depends on the number of the answer: a window names the answer of its cut."""
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
