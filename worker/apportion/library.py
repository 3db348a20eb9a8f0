"""The public API: every name of `import apportion`, and an engine to begin with.

Only these names are stable; all others can move. Importing it reads no settings and no environment. The
library keeps no state: the caller keeps the session's row. Each name is imported `as` itself: so a type
checker knows that it is public.
"""

from apportion.core.bounds import Bounds as Bounds
from apportion.core.compose import Answered as Answered
from apportion.core.compose import compose as compose
from apportion.core.composer import Composer as Composer
from apportion.core.engine import Engine as Engine
from apportion.core.errors import ErrorCode as ErrorCode
from apportion.core.errors import EventError as EventError
from apportion.core.events import Candidate as Candidate
from apportion.core.events import Constraint as Constraint
from apportion.core.events import Constraints as Constraints
from apportion.core.events import ContextArtifact as ContextArtifact
from apportion.core.events import ContextRequest as ContextRequest
from apportion.core.events import ContextRetraction as ContextRetraction
from apportion.core.events import ContextUsage as ContextUsage
from apportion.core.events import Conversation as Conversation
from apportion.core.events import Event as Event
from apportion.core.events import LaneRequirement as LaneRequirement
from apportion.core.events import LayerContent as LayerContent
from apportion.core.events import Match as Match
from apportion.core.events import MatchType as MatchType
from apportion.core.events import Pressure as Pressure
from apportion.core.events import Section as Section
from apportion.core.events import SectionedLayer as SectionedLayer
from apportion.core.events import Trigger as Trigger
from apportion.core.events import Vitals as Vitals
from apportion.core.events import session_key as session_key
from apportion.core.fingerprints import Secrets as Secrets
from apportion.core.memory import Memory as Memory
from apportion.core.policies.catalogue import Catalogue as Catalogue
from apportion.core.publish import publish as publish
from apportion.core.results import Breakpoint as Breakpoint
from apportion.core.results import Certificate as Certificate
from apportion.core.results import ChatWindow as ChatWindow
from apportion.core.results import ComposedItem as ComposedItem
from apportion.core.results import ContextComposed as ContextComposed
from apportion.core.results import ContextDecision as ContextDecision
from apportion.core.results import Entry as Entry
from apportion.core.results import Fidelity as Fidelity
from apportion.core.results import Group as Group
from apportion.core.results import GroupPrice as GroupPrice
from apportion.core.results import Margin as Margin
from apportion.core.results import Outcome as Outcome
from apportion.core.results import Prefix as Prefix
from apportion.core.results import PrefixBreak as PrefixBreak
from apportion.core.results import PrefixBreakReason as PrefixBreakReason
from apportion.core.results import Reason as Reason
from apportion.core.results import Redundant as Redundant
from apportion.core.results import Status as Status
from apportion.core.results import ToolResults as ToolResults
from apportion.core.results import WindowBreak as WindowBreak
from apportion.core.session.row import EMPTY as EMPTY
from apportion.core.session.row import Session as Session
from apportion.core.strategies import parse_policy as parse_policy
from apportion.core.strategy_api.policy import Policy as Policy
from apportion.core.strategy_api.policy import PolicyError as PolicyError
from apportion.core.strategy_api.policy import Problem as Problem
from apportion.core.text.tokens import CounterName as CounterName
from apportion.core.text.tokens import TokenCounter as TokenCounter
from apportion.core.wire.codec import decode as decode
from apportion.core.wire.codec import encode as encode
from apportion.doors.fitting import FitError as FitError
from apportion.doors.fitting import FitOptions as FitOptions
from apportion.doors.fitting import Fitted as Fitted
from apportion.doors.fitting import LocalSessions as LocalSessions
from apportion.doors.fitting import fit as fit
from apportion.doors.fitting import fit_async as fit_async
from apportion.doors.formats import AnthropicBody as AnthropicBody
from apportion.doors.formats import FormatError as FormatError
from apportion.doors.formats import OpenAIBody as OpenAIBody
from apportion.doors.formats import TextBody as TextBody
from apportion.doors.formats import anthropic_body as anthropic_body
from apportion.doors.formats import openai_body as openai_body
from apportion.doors.formats import text_body as text_body
from apportion.engine.counters import COUNTERS as COUNTERS
from apportion.engine.default import ENGINE as ENGINE
from apportion.engine.policies import builtin_policies as builtin_policies
from apportion.engine.policies import load_policy as load_policy
from apportion.version import ENGINE_VERSION as ENGINE_VERSION

globals()["__all__"] = sorted(name for name in globals() if not name.startswith("_"))
