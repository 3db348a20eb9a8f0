"""The policy of strategy `request`: tools, material as in `lanes`, and history as in `conversation`."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET
from msgspec.structs import replace
from pydantic import Field

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import MAX_INTEGER, Opt
from apportion.core.models import Model
from apportion.core.results import Limits
from apportion.core.strategies.conversation.policy import (
    DEFAULT_TOTAL_TOKENS,
    ConversationPolicy,
    ConversationTable,
    HistoryTables,
)
from apportion.core.strategies.lanes.policy import WHOLE, LanePolicy, LanesPolicy, LanesTables
from apportion.core.strategy_api.policy import (
    BY_MODEL,
    AddedLater,
    Count,
    CounterChoice,
    OwnName,
    Policy,
    PolicyTable,
    Problem,
    Thousandths,
)

SYSTEM, TOOLS, HISTORY, RESPONSE = "system", "tools", "history", "response"
GROUPS = (SYSTEM, TOOLS, HISTORY, RESPONSE)
"""The groups of a decision that are no lanes; no lane has such a name."""


class ToolsPolicy(PolicyTable):
    """`[tools]`: the most tokens of all definitions, and how many of the last calls keep their tools.

    With `shorten`, definitions are shortened before any is left out. A tool outside of the last answer's set
    replaces it if it is more relevant by `hold` thousandths.
    """

    max_tokens: Count = 20_000
    keep_called: Count = 8
    shorten: bool = False
    hold: Thousandths = 0


class MaterialPolicy(LanesTables):
    """`[material]`: the candidates, by the tables of `lanes`.

    `share` is their part of the rest after the fixed parts and the tools, in thousandths. With
    place `message`, they are a message of the user before the user's last one. With place `text`, they are
    the answer's `text`, and the caller places it; their tokens include the frame of a message.
    """

    share: Thousandths = 250
    place: Literal["message", "text"] = "message"
    lanes: dict[OwnName, LanePolicy] = Field(
        default={"retrieved": LanePolicy(priority=0, min_tokens=0, max_tokens=MAX_INTEGER)}, min_length=1
    )


class HistoryPolicy(HistoryTables):
    """`[history]`: the chat, by the tables of `conversation`, and a message's overhead without a model."""

    message_overhead_tokens: Count = 4


class TrustPolicy(PolicyTable):
    """`[trust]`: the part of the limit for all items with a trust of 0, in thousandths, and default trusts.

    A message without a trust has that of its role, a candidate that of its kind, and others `default`.
    """

    untrusted_share: Thousandths = WHOLE
    default: Annotated[int, Field(ge=0, le=3)] = 2
    roles: dict[OwnName, Annotated[int, Field(ge=0, le=3)]] = Field(default_factory=dict)
    kinds: dict[OwnName, Annotated[int, Field(ge=0, le=3)]] = Field(default_factory=dict)


class RequestPolicy(Policy):
    """A policy of strategy `request`. If `budget_tokens` is 0, the limit is the model's window."""

    own_backoff: ClassVar[bool] = False

    counter: CounterChoice = BY_MODEL
    budget_tokens: Count = 0
    response_tokens: Count = 16_000
    tools: ToolsPolicy = ToolsPolicy()
    material: MaterialPolicy = MaterialPolicy()
    history: HistoryPolicy = HistoryPolicy()
    trust: AddedLater[TrustPolicy] = TrustPolicy()

    def limits(self, asked_tokens: Opt[int], model: Model | None) -> Limits:
        """Return the limits of a request; the model's window bounds its total.

        Raises:
            EventError: neither the request nor the policy has a total, and the window is unknown.
        """
        limits = super().limits(asked_tokens, model)
        window = 0 if model is None else model.window_tokens
        if asked_tokens is not UNSET or self.budget_tokens:
            return replace(limits, budget_tokens=min(limits.budget_tokens, window or limits.budget_tokens))
        if not window:
            text = f"policy {self.name} fills the model's window, which is not known; give the tokens"
            raise EventError(ErrorCode.MISSING_FIELD, text, "$.budget_tokens")
        return replace(limits, budget_tokens=window)

    def answer_tokens(self, asked_tokens: Opt[int], model: Model | None) -> int:
        """Return the tokens that are left free for the answer."""
        if asked_tokens is not UNSET:
            return asked_tokens
        most = 0 if model is None else model.answer_tokens
        return min(self.response_tokens, most or self.response_tokens)

    @cached_property
    def of_material(self) -> LanesPolicy:
        """The policy of the material as a part."""
        tables = {name: getattr(self.material, name) for name in LanesTables.model_fields}
        return LanesPolicy.model_construct(**self._common("lanes"), **tables)

    @cached_property
    def of_history(self) -> ConversationPolicy:
        """The policy of the chat as a part: all of its limit is for messages."""
        tables = {name: getattr(self.history, name) for name in HistoryTables.model_fields}
        table = ConversationTable(
            system_tokens=0,
            messages_tokens=DEFAULT_TOTAL_TOKENS,
            response_tokens=0,
            message_overhead_tokens=self.history.message_overhead_tokens,
            whole_system_prompt=True,
            repair=True,
        )
        common = self._common("conversation")
        return ConversationPolicy.model_construct(**common, conversation=table, **tables)

    def _common(self, strategy: str) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "strategy": strategy, "counter": self.counter}

    @cached_property
    def prefix_ttl_s(self) -> int:
        """The seconds of event time for which a provider caches a beginning; 0: no stable window."""
        return self.of_history.prefix_ttl_s

    @cached_property
    def reads_sequence(self) -> bool:
        """True if a composition depends on the number of the answer."""
        return self.of_history.reads_sequence

    @cached_property
    def marks_items(self) -> bool:
        """True if the template of the material has a `{mark}`."""
        return self.of_material.marks_items

    @cached_property
    def age_edges_us(self) -> Sequence[int]:
        """The ages at which a candidate's recency bucket falls by 1, in microseconds."""
        return self.of_material.age_edges_us

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield the problems of `[material]` as of `lanes`, and lanes with the name of another group."""
        yield from super().cross_check(raw)
        material = raw.get("material")
        if not isinstance(material, Mapping):
            return
        for problem in LanesPolicy.cross_check({"strategy": "lanes", **material, "budget_tokens": 0}):
            yield Problem(f"material.{problem.key}", problem.reason)
        lanes = material.get("lanes")
        for name in lanes if isinstance(lanes, Mapping) else ():
            if name in GROUPS:
                yield Problem(f"material.lanes.{name}", f"{', '.join(GROUPS)} are other groups; rename it")
