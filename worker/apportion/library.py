"""The public API: every name of `import apportion`, and an engine to begin with.

Only these names are stable; all others can move. Importing it reads no settings and no environment. The
library keeps no state: the caller keeps the session's row.
"""

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered, compose
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import (
    Candidate,
    Constraint,
    Constraints,
    ContextArtifact,
    ContextRequest,
    ContextRetraction,
    ContextUsage,
    Conversation,
    Event,
    LaneRequirement,
    LayerContent,
    Match,
    MatchType,
    Pressure,
    Section,
    SectionedLayer,
    Trigger,
    Vitals,
    session_key,
)
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.publish import publish
from apportion.core.results import (
    Breakpoint,
    Certificate,
    ChatWindow,
    ComposedItem,
    ContextComposed,
    ContextDecision,
    Entry,
    Fidelity,
    Group,
    GroupPrice,
    Margin,
    Outcome,
    Prefix,
    PrefixBreak,
    PrefixBreakReason,
    Reason,
    Redundant,
    Status,
    ToolResults,
    WindowBreak,
)
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError, Problem
from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.core.wire.codec import decode, encode
from apportion.doors.fitting import FitError, FitOptions, Fitted, LocalSessions, fit, fit_async
from apportion.doors.formats import (
    AnthropicBody,
    FormatError,
    OpenAIBody,
    TextBody,
    anthropic_body,
    openai_body,
    text_body,
)
from apportion.engine.counters import COUNTERS
from apportion.engine.default import ENGINE
from apportion.engine.policies import builtin_policies, load_policy
from apportion.version import ENGINE_VERSION

__all__ = [
    "COUNTERS",
    "EMPTY",
    "ENGINE",
    "ENGINE_VERSION",
    "Answered",
    "AnthropicBody",
    "Bounds",
    "Breakpoint",
    "Candidate",
    "Catalogue",
    "Certificate",
    "ChatWindow",
    "ComposedItem",
    "Composer",
    "Constraint",
    "Constraints",
    "ContextArtifact",
    "ContextComposed",
    "ContextDecision",
    "ContextRequest",
    "ContextRetraction",
    "ContextUsage",
    "Conversation",
    "CounterName",
    "Engine",
    "Entry",
    "ErrorCode",
    "Event",
    "EventError",
    "Fidelity",
    "FitError",
    "FitOptions",
    "Fitted",
    "FormatError",
    "Group",
    "GroupPrice",
    "LaneRequirement",
    "LayerContent",
    "LocalSessions",
    "Margin",
    "Match",
    "MatchType",
    "Memory",
    "OpenAIBody",
    "Outcome",
    "Policy",
    "PolicyError",
    "Prefix",
    "PrefixBreak",
    "PrefixBreakReason",
    "Pressure",
    "Problem",
    "Reason",
    "Redundant",
    "Secrets",
    "Section",
    "SectionedLayer",
    "Session",
    "Status",
    "TextBody",
    "TokenCounter",
    "ToolResults",
    "Trigger",
    "Vitals",
    "WindowBreak",
    "anthropic_body",
    "builtin_policies",
    "compose",
    "decode",
    "encode",
    "fit",
    "fit_async",
    "load_policy",
    "openai_body",
    "parse_policy",
    "publish",
    "session_key",
    "text_body",
]
