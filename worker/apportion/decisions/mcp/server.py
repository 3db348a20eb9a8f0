"""The server and its tools, on the official SDK: finding, summing, explaining and replaying decisions.

Clients' arguments are validated by the SDK from the types below. Errors that a model can act on are returned
with their code. Errors of files are logged, and returned as `sources_failed`. All others only name the tool.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, Field, ValidationError

from apportion.core.errors import MissingExtraError
from apportion.core.results import Reason, Status
from apportion.core.strategy_api.policy import BY_MODEL, Policy, PolicyError
from apportion.decisions.analytics.source import TablesFailedError
from apportion.decisions.explain.candidate import candidate_explanation, changes_explanation, not_searched
from apportion.decisions.explain.decision import explanation
from apportion.decisions.mcp.explaining import (
    bounded,
    changes_of,
    explained,
    summary_of,
    text_of,
)
from apportion.decisions.mcp.recordings import Recording
from apportion.decisions.mcp.results import (
    ExplainedDecision,
    FoundDecisions,
    ReplayedChanges,
    SummedDecisions,
)
from apportion.decisions.mcp.sources import (
    DecisionFile,
    DecisionFilter,
    DecisionSource,
    DecisionTables,
    ListedDecision,
)
from apportion.decisions.mcp.summaries import SumBy, summed, text_of_sums
from apportion.decisions.replay.findings import Finding
from apportion.decisions.replay.origin import (
    AmbiguousDecisionError,
    UnknownDecisionError,
    UnreadableDecisionError,
)
from apportion.decisions.replay.recorded_files import verification_of
from apportion.decisions.replay.whatif import Change
from apportion.decisions.replay.why import UnknownCandidateError, entries_of, is_open
from apportion.engine.counters import counters_with
from apportion.engine.counters.libraries import CounterFileError
from apportion.engine.policies import read_policy
from apportion.printable import printable
from apportion.settings import Settings, SettingsError
from apportion.version import __version__

_INSTRUCTIONS = (
    "Apportion composes model context under a token ceiling and records every decision. Find a decision, "
    "then explain it: it lists candidates with their reasons. Results hold ids and numbers, no content."
)
_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ANSWERABLE = (
    AmbiguousDecisionError,
    MissingExtraError,
    UnknownCandidateError,
    UnknownDecisionError,
    UnreadableDecisionError,
)
"""Errors with messages for the client."""
_SOURCE_ERRORS = (CounterFileError, OSError, PolicyError, SettingsError, TablesFailedError)
"""Errors with messages that may hold paths of the server."""
_FOUND_MAX = 100
_SUMMED_MAX = 10_000
_POLICY_MAX_CHARACTERS = 64 << 10

_logger = logging.getLogger(__name__)


def _known_reason(reason: Reason) -> Reason:
    if reason not in set(Reason):  # the enum takes names of other versions, for recorded decisions
        raise ValueError(f"expected one of {', '.join(Reason)}")
    return reason


def _timestamp(value: object) -> object:
    if not isinstance(value, str) or "T" not in value:  # pydantic would take a number as seconds
        raise ValueError("expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z")
    return value


_Time: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_timestamp)]
_Since: TypeAlias = Annotated[
    _Time | None, Field(description="Only requests of this time or later, in RFC 3339.")
]
_Until: TypeAlias = Annotated[_Time | None, Field(description="Only requests before this time.")]
_SessionId: TypeAlias = Annotated[str | None, Field(description="Only decisions of this session.")]
_Tenant: TypeAlias = Annotated[str | None, Field(description="Only decisions of this tenant.")]
_DecisionId: TypeAlias = Annotated[
    str, Field(pattern="^[0-9a-f]{1,64}$", description="The decision's id, or a unique beginning of it.")
]
_PolicyToml: TypeAlias = Annotated[
    str | None,
    Field(
        max_length=_POLICY_MAX_CHARACTERS,
        description="A policy in TOML, instead of the policies of its name, or of its strategy.",
    ),
]


class DecisionServer(MCPServer[Any]):
    """A server of tools over one source of decisions, and over the events of its decisions, if given."""

    def __init__(self, source: DecisionSource, recording: Recording | None = None) -> None:
        """Register the tools; `replay_decisions` needs a recording."""
        super().__init__(
            "apportion",
            version=__version__,
            instructions=_INSTRUCTIONS,
            log_level="WARNING",
            subscriptions=False,
        )
        self._source = source
        self._recording = recording
        tools: list[Callable[..., CallToolResult]] = [
            self.find_decisions,
            self.summarize_decisions,
            self.explain_decision,
        ]
        if recording is not None:
            tools.append(self.replay_decisions)
        for tool in tools:
            self.add_tool(tool, annotations=_READ_ONLY)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; raise ToolError for invalid arguments, and for unknown ones, which the SDK ignores."""
        for tool in await self.list_tools():
            unknown = sorted(arguments.keys() - tool.input_schema["properties"].keys())
            if tool.name == name and unknown:
                known = ", ".join(tool.input_schema["properties"])
                raise ToolError(f"unknown_argument: {printable(unknown[0])}; {name} takes {known}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = error.__cause__.errors()[0]
            argument = ".".join(map(str, wrong["loc"][:1]))
            raise ToolError(f"invalid_argument: {argument}: {wrong['msg']}; see the tool's schema") from None

    def find_decisions(  # noqa: PLR0913 - a tool takes its filters by name
        self,
        *,
        session_id: _SessionId = None,
        tenant: _Tenant = None,
        request_id: Annotated[str | None, Field(description="Only decisions about this request.")] = None,
        status: Annotated[Status | None, Field(description="Only decisions with this status.")] = None,
        reason: Annotated[
            Annotated[Reason, AfterValidator(_known_reason)] | None,
            Field(description="Only decisions that omitted a candidate for this reason."),
        ] = None,
        since: _Since = None,
        until: _Until = None,
        limit: Annotated[int, Field(ge=1, le=_FOUND_MAX, description="At most so many decisions.")] = 20,
    ) -> Annotated[CallToolResult, FoundDecisions]:
        """Find recorded decisions, newest first. Without arguments, return the newest of all."""
        wanted = DecisionFilter(
            session_id=session_id,
            tenant=tenant,
            request_id=request_id,
            status=status,
            reason=reason,
            since=since,
            until=until,
        )
        with _tool_errors():
            newest = self._source.newest(wanted, limit + 1)
        shown, has_more = newest[:limit], len(newest) > limit
        lines = [_line(decision) for decision in shown] or ["no decision matches"]
        if has_more:
            lines.append("there are more: give further filters, or an earlier `until`")
        found = FoundDecisions(decisions=[summary_of(decision) for decision in shown], has_more=has_more)
        return _result("\n".join(lines), found)

    def summarize_decisions(
        self,
        by: Annotated[SumBy, Field(description="What the decisions are summed by.")],
        *,
        session_id: _SessionId = None,
        tenant: _Tenant = None,
        since: _Since = None,
        until: _Until = None,
    ) -> Annotated[CallToolResult, SummedDecisions]:
        """Sum the newest 10,000 matching decisions by reason of omission, group (lane), policy or UTC day."""
        wanted = DecisionFilter(session_id=session_id, tenant=tenant, since=since, until=until)
        with _tool_errors():
            newest = self._source.newest(wanted, _SUMMED_MAX + 1)
        found = summed(newest[:_SUMMED_MAX], by, has_more=len(newest) > _SUMMED_MAX)
        return _result(text_of_sums(found), found)

    def explain_decision(
        self,
        decision_id: _DecisionId,
        candidate_id: Annotated[
            str | None, Field(description="Explain why this candidate is, or is not, in the context.")
        ] = None,
    ) -> Annotated[CallToolResult, ExplainedDecision]:
        """Explain one decision, or why a candidate is not in its context and what would have admitted it."""
        with _tool_errors():
            decision = self._source.decision(decision_id)
            if candidate_id is None:
                return _result(text_of(explanation(decision, full=True)), explained(decision))
            entries = entries_of(decision, candidate_id)
            result = explained(decision, entries)
            texts = [text_of(candidate_explanation(decision, entries))]
            if self._recording is not None and is_open(decision, entries[0]):
                found = self._recording.search(decision, entries[0])
                if isinstance(found, Finding):
                    result.not_searched = not_searched(found)
                    texts.append(result.not_searched)
                else:
                    result.changes = changes_of(found)
                    texts.append(text_of(changes_explanation(found)))
        return _result("\n".join(texts), result)

    def replay_decisions(
        self,
        policy_toml: _PolicyToml = None,
        budget_tokens: Annotated[
            int | None, Field(ge=0, description="Give every request this budget.")
        ] = None,
        counter: Annotated[
            str | None, Field(max_length=128, description="Count tokens with this counter.")
        ] = None,
        without: Annotated[
            list[str] | None, Field(max_length=20, description="Exclude candidates of these kinds or lanes.")
        ] = None,
        *,
        without_tools: Annotated[bool, Field(description="Remove the tools of every request.")] = False,
    ) -> Annotated[CallToolResult, ReplayedChanges]:
        """Compose all recorded requests again under a change, and return how the decisions differ.

        Give at least one change; several are applied together. Nothing is written.
        """
        change = Change(
            policy=None if policy_toml is None else _policy(policy_toml),
            budget_tokens=budget_tokens,
            counter=counter,
            without=tuple(without or ()),
            without_tools=without_tools,
        )
        if change == Change():
            raise ToolError("no_change: give policy_toml, budget_tokens, counter, without or without_tools")
        assert self._recording is not None, "it is registered with a recording only"
        with _tool_errors():
            counters = counters_with(self._recording.settings.counter_files)
            if counter not in (None, BY_MODEL) and counter not in counters:
                raise ToolError(f"unknown_counter: expected one of {', '.join((*counters, BY_MODEL))}")
            result, text = self._recording.replay(change)
        return _result(text, result)


def create_server(settings: Settings, source: Path, events: Path | None) -> DecisionServer:
    """Return a server over a file of decisions and its events, or over tables; errors: `verification_of`."""
    if source.is_dir():
        return DecisionServer(DecisionTables(source))
    decisions = DecisionFile(source)
    if events is None:
        return DecisionServer(decisions)
    verification_of(settings, ())  # so that wrong settings end the command at once
    return DecisionServer(decisions, Recording(events, decisions, settings))


def _policy(toml: str) -> Policy:
    try:
        return read_policy(toml.encode(), "policy_toml")
    except PolicyError as error:
        raise ToolError(f"{error.code}: {error}") from None


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Turn errors into a ToolError with a code and a remedy, and without any path of the server."""
    try:
        yield
    except _ANSWERABLE as error:
        raise ToolError(f"{error.code}: {error}") from None
    except _SOURCE_ERRORS as error:
        _logger.error("a source cannot be read: %s", error)  # noqa: TRY400 - the message says it all
        raise ToolError("sources_failed: the server cannot read its files; its log says why") from None


def _line(decision: ListedDecision) -> str:
    ids = printable(f"session {decision.tenant}/{decision.session_id}, request {decision.request_id}")
    return f"{decision.requested_at.isoformat()} {decision.decision_id}, {ids}: {printable(decision.summary)}"


def _result(text: str, result: BaseModel) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=bounded(text))],
        structured_content=result.model_dump(mode="json"),
    )
