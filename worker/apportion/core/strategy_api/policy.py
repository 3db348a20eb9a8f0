"""Policies: typed, frozen, and checked when loaded, with all errors at once.

`Policy` has the keys that all strategies share; each strategy subclasses it and adds its own tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.digests import digest
from apportion.core.event_time import event_time_us
from apportion.core.events import MAX_INTEGER, Opt, Timestamp
from apportion.core.models import Model
from apportion.core.results import Limits, PolicyRef
from apportion.core.text.tokens import OWN_COUNTER, CounterName, ModelCounter

_ALWAYS_US = -(2**63)
"""A time before any event; with an offset, an event may be before the year 1 in UTC."""

Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Thousandths = Annotated[int, Field(ge=0, le=1_000)]
OwnName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,64}$")]
"""A policy's name for a lane, kind or category, in the same form as in events."""
PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
ModelName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,128}$")]
BY_MODEL = "model"
"""The value of `counter` in policies that count by the request's model."""
_COUNTERS = (*CounterName, *ModelCounter)


def _counter(value: str) -> str:
    """Return the name of a counter, or raise ValueError."""
    if value == BY_MODEL or value in _COUNTERS or OWN_COUNTER.fullmatch(value):
        return value
    raise ValueError(f"expected one of {', '.join(_COUNTERS)}, {BY_MODEL}, or file:NAME")


_COUNTER_SCHEMA = {"anyOf": [{"enum": [*_COUNTERS, BY_MODEL]}, {"pattern": f"^{OWN_COUNTER.pattern}$"}]}
CounterChoice = Annotated[
    str, AfterValidator(_counter), WithJsonSchema({"type": "string", **_COUNTER_SCHEMA})
]

_T = TypeVar("_T")
_ADDED_LATER = "added later"
AddedLater = Annotated[_T, _ADDED_LATER]
"""The type of a field that a later version of Apportion added.

Such a field enters the digest only if it differs from its default. So the digests of older policies do not
change.
"""


def _rfc3339(value: Any) -> Any:
    """Parse a string like an event's timestamp; other values, such as TOML's date-times, are unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.convert(value, Timestamp)
    except msgspec.ValidationError:
        raise ValueError("expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z") from None


class Problem(msgspec.Struct, frozen=True):
    """An error in a policy: the dotted key, and the reason."""

    key: str
    reason: str


class PolicyError(Exception):
    """A refused policy; `problems` holds all of its errors."""

    code = "invalid_policy"
    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...], source: str = "") -> None:
        lines = (f"{problem.key}: {problem.reason}" for problem in problems)
        super().__init__("\n".join(f"{source}: {line}" if source else line for line in lines))
        self.problems = problems
        self.source = source


class PolicyTable(BaseModel):
    """A table of a policy: unknown keys are refused, wrong types never coerced."""

    # Validators are built when a policy is first read. Tables within a policy never need one of their own.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class SessionLimits(PolicyTable):
    """`[session]`: the limits of a session and a request, the backoff, and the idle timeout. 0: none."""

    max_tokens: Count = 0
    max_tokens_per_request: Count = 0
    backoff_prompts: Count = 0
    idle_timeout_s: Count = 86_400


class OverlapPolicy(PolicyTable):
    """`[overlap]`: the least shared part of the shorter content that counts, in thousandths. 0: off."""

    threshold: Thousandths = 0


class CertificatePolicy(PolicyTable):
    """`[certificate]`: whether decisions hold a certificate of the selection's quality."""

    enabled: bool = False


def _json_value(value: Any) -> Any:
    """Return a policy's value in JSON types, for its digest.

    These rules are our own, because a digest must not depend on the version of pydantic.
    """
    if isinstance(value, PolicyTable):
        parts = ((name, field, getattr(value, name)) for name, field in type(value).model_fields.items())
        return {
            name: _json_value(part)
            for name, field, part in parts
            if _ADDED_LATER not in field.metadata or part != field.default
        }
    if isinstance(value, Mapping):
        return {name: _json_value(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_json_value(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.value if isinstance(value, Enum) else value


class Policy(PolicyTable):
    """The keys of every policy. `budget_tokens` is the total; 0: nothing is selected."""

    own_backoff: ClassVar[bool] = True
    """False if the strategy refuses `backoff_prompts`."""

    name: PolicyName
    version: PolicyName
    strategy: str
    counter: CounterChoice = CounterName.O200K_BASE
    """A counter, or `model`: the counter and the frame of the request's model, or else of `model`."""
    model: AddedLater[ModelName | None] = None
    by_model: AddedLater[bool] = False
    """If true, `counter` is only for requests without a model."""
    budget_tokens: Count
    budget_tokens_max: Count = 0
    effective_from: Annotated[AwareDatetime | None, BeforeValidator(_rfc3339)] = None
    session: SessionLimits = SessionLimits()

    @cached_property
    def digest(self) -> str:
        """The digest of the canonical JSON of every key, defaults included; see `AddedLater`."""
        return digest(canonical_json_of_any(_json_value(self)))

    @cached_property
    def ref(self) -> PolicyRef:
        """The reference to the policy in an answer."""
        return PolicyRef(name=self.name, version=self.version, strategy=self.strategy, digest=self.digest)

    @cached_property
    def effective_from_us(self) -> int:
        """The event time from which the policy holds, in microseconds; before all events if it has none."""
        return _ALWAYS_US if self.effective_from is None else event_time_us(self.effective_from)

    def total_tokens(self, asked_tokens: Opt[int]) -> int:
        """Return the total: the request's, up to `budget_tokens_max` (0: no bound), or else the policy's."""
        if asked_tokens is UNSET:
            return self.budget_tokens
        return min(asked_tokens, self.budget_tokens_max or asked_tokens)

    @cached_property
    def _own_limits(self) -> Limits:
        return Limits(budget_tokens=self.budget_tokens, **self.session.model_dump())

    def limits(self, asked_tokens: Opt[int], model: Model | None) -> Limits:  # noqa: ARG002 - some policies read the model
        """Return the limits of a request that asks for that many tokens, and of its session.

        `model` is the row by which the policy counts.
        """
        if asked_tokens is UNSET:
            return self._own_limits
        return replace(self._own_limits, budget_tokens=self.total_tokens(asked_tokens))

    @cached_property
    def cache_entries_max(self) -> int:
        """The largest number of compositions of this policy that are cached; 0: none."""
        return 0

    @cached_property
    def cache_ttl_s(self) -> int:
        """The seconds of event time for which a composition is cached."""
        return 0

    @cached_property
    def prefix_ttl_s(self) -> int:
        """The seconds of event time for which a provider caches a prefix; 0: the policy holds no prefixes."""
        return 0

    @cached_property
    def age_edges_us(self) -> Sequence[int]:
        """The ages at which a candidate's age class rises, ascending; strategies read only the class."""
        return ()

    @cached_property
    def reads_sequence(self) -> bool:
        """True if a composition depends on the number of the answer."""
        return False

    @cached_property
    def marks_items(self) -> bool:
        """True if each item is between two marks, which need a fingerprint secret."""
        return False

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield the errors between keys that are each well formed; malformed keys are ignored."""
        session = raw.get("session")
        if not cls.own_backoff and isinstance(session, Mapping) and session.get("backoff_prompts"):
            yield Problem(
                "session.backoff_prompts", f"strategy {raw['strategy']} has no backoff; leave it out"
            )

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Return the policy of a parsed TOML file or event.

        Raises:
            PolicyError: the policy has errors: first those of keys, in order, then those between keys.
        """
        policy, problems = cls._validated(raw)
        problems += cls.cross_check(raw)
        if policy is None or problems:
            raise PolicyError(tuple(problems))
        return policy

    @classmethod
    def common_problems(cls, raw: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Return the errors in the keys that all policies share, for a policy whose strategy is unknown."""
        given = {name: raw[name] for name in cls.model_fields if name in raw and name != "strategy"}
        checked = {"name", "version", *given}
        problems = cls._validated(given)[1]
        return tuple(problem for problem in problems if problem.key.partition(".")[0] in checked)

    @classmethod
    def _validated(cls, raw: Mapping[str, Any]) -> tuple[Self | None, list[Problem]]:
        try:
            return cls.model_validate(dict(raw)), []
        except ValidationError as error:
            problems = []
            for detail in error.errors(include_url=False, include_input=False):
                key = ".".join(str(part) for part in detail["loc"])
                problems.append(Problem(key or "policy", _reason(detail["type"], detail["msg"])))
            return None, problems


def _reason(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "unknown key; this strategy does not have it"
        case "missing":
            return "required"
        case "model_type" | "dict_type":
            return "expected a table"
        case "value_error":
            return message.removeprefix("Value error, ")
        case _:
            return message


def clashing_priorities(key: str, what: str, tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield an error for each raw table that repeats an earlier priority; `what` is the word for a table."""
    owners: dict[int, str] = {}
    for name, table in tables.items():
        priority = integer(table, "priority")
        if priority is not None and owners.setdefault(priority, name) != name:
            reason = f"{what} {owners[priority]} has the same; priorities must differ"
            yield Problem(f"{key}.{name}.priority", reason)


def integer(table: Any, key: str) -> int | None:
    """Return an integer of a raw table, or None if it is absent or malformed; for `cross_check`."""
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if type(value) is int and 0 <= value <= MAX_INTEGER else None
