"""Policies: typed, frozen, and checked when loaded, with all the errors at once.

Decides what every policy has in common; a strategy adds its own tables by subclassing `Policy`. Never
reads a file: `apportion.policies` does.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from apportion.core.events import MAX_INTEGER, Opt, Timestamp
from apportion.core.identity import canonical_json_of_any, digest, event_time_us
from apportion.core.results import Limits, PolicyRef
from apportion.core.text.tokens import CounterName

_ALWAYS_US = -(2**63)
"""Before any event: an offset takes one to before the year 1 in UTC."""

Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Thousandths = Annotated[int, Field(ge=0, le=1_000)]
OwnName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,64}$")]
"""What a policy calls its lanes, kinds, categories: a name that travels, as those of events."""
PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def _rfc3339(value: Any) -> Any:
    """Read a string as events' timestamps are read; TOML has moments of its own."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.convert(value, Timestamp)
    except msgspec.ValidationError:
        raise ValueError("expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z") from None


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with a policy: the key, dotted, and the reason."""

    key: str
    reason: str


class PolicyError(Exception):
    """A policy is refused; `problems` holds everything that is wrong with it."""

    code = "invalid_policy"
    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...], source: str = "") -> None:
        lines = (f"{problem.key}: {problem.reason}" for problem in problems)
        super().__init__("\n".join(f"{source}: {line}" if source else line for line in lines))
        self.problems = problems
        self.source = source


class PolicyTable(BaseModel):
    """A table of a policy: unknown keys are refused, wrong types never coerced."""

    # deferred: a table within a policy needs no validator of its own, and a policy none before it is read
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class SessionLimits(PolicyTable):
    """`[session]`: what one session may spend, and how long it may be idle. 0: none."""

    max_tokens: Count = 0
    max_tokens_per_request: Count = 0
    backoff_prompts: Count = 0
    idle_timeout_s: Count = 86_400


class OverlapPolicy(PolicyTable):
    """`[overlap]`: thousandths of the shorter content that must be shared before it counts. 0: off."""

    threshold: Thousandths = 0


class CertificatePolicy(PolicyTable):
    """`[certificate]`: whether decisions tell how good the selection is."""

    enabled: bool = False


def is_default(table: PolicyTable) -> bool:
    """Tell whether a table says nothing; one that came later stays out of the digest then."""
    return table == type(table)()


class Policy(PolicyTable):
    """What every policy states. `budget_tokens` is the total; 0 disables."""

    own_backoff: ClassVar[bool] = True
    """Whether the strategy knows ids that come again, so that `backoff_prompts` means something."""

    name: PolicyName
    version: PolicyName
    strategy: str
    counter: CounterName = Field(default=CounterName.O200K_BASE, strict=False)
    budget_tokens: Count
    budget_tokens_max: Count = 0
    effective_from: Annotated[AwareDatetime | None, BeforeValidator(_rfc3339)] = None
    session: SessionLimits = SessionLimits()

    @cached_property
    def digest(self) -> str:
        """The digest of the canonical JSON of every key, defaults included.

        A table that came later stands in it only where it is not as by default: else the digests of all
        policies before it would change.
        """
        return digest(canonical_json_of_any(self.model_dump(mode="json")))

    @cached_property
    def ref(self) -> PolicyRef:
        """How an answer names the policy."""
        return PolicyRef(name=self.name, version=self.version, strategy=self.strategy, digest=self.digest)

    @cached_property
    def effective_from_us(self) -> int:
        """The event time from which the policy holds; without one, always."""
        return _ALWAYS_US if self.effective_from is None else event_time_us(self.effective_from)

    def total_tokens(self, asked_tokens: Opt[int]) -> int:
        """Return the configured total: the request's own, up to `budget_tokens_max`, else the policy's."""
        if asked_tokens is UNSET:
            return self.budget_tokens
        return min(asked_tokens, self.budget_tokens_max or asked_tokens)

    @cached_property
    def _own_limits(self) -> Limits:
        return Limits(budget_tokens=self.budget_tokens, **self.session.model_dump())

    def limits(self, asked_tokens: Opt[int]) -> Limits:
        """Return what bounds a request that asks for so many tokens, and its session."""
        if asked_tokens is UNSET:
            return self._own_limits
        return replace(self._own_limits, budget_tokens=self.total_tokens(asked_tokens))

    @cached_property
    def cache_entries_max(self) -> int:
        """How many compositions may be remembered under policies like this; 0: none."""
        return 0

    @cached_property
    def cache_ttl_s(self) -> int:
        """How long, in event time, a composition may be remembered."""
        return 0

    @cached_property
    def prefix_ttl_s(self) -> int:
        """How long, in event time, a provider's cache keeps a text's beginning; 0: this policy holds none."""
        return 0

    @cached_property
    def marks_items(self) -> bool:
        """Whether a text has a mark around each item, for which the session needs a secret."""
        return False

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield what is wrong between keys that are each well formed; the others are passed over."""
        session = raw.get("session")
        if not cls.own_backoff and isinstance(session, Mapping) and session.get("backoff_prompts"):
            yield Problem(
                "session.backoff_prompts", f"strategy {raw['strategy']} has no backoff; leave it out"
            )

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Return the policy that a TOML file or an event holds.

        Raises:
            PolicyError: with every problem, in the order of the keys, then those between keys.
        """
        policy, problems = cls._validated(raw)
        problems += cls.cross_check(raw)
        if policy is None or problems:
            raise PolicyError(tuple(problems))
        return policy

    @classmethod
    def common_problems(cls, raw: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Return what is wrong with the keys of all policies, where no strategy can judge the others."""
        given = {name: raw[name] for name in cls.model_fields if name in raw and name != "strategy"}
        told = {"name", "version", *given}
        return tuple(one for one in cls._validated(given)[1] if one.key.partition(".")[0] in told)

    @classmethod
    def _validated(cls, raw: Mapping[str, Any]) -> tuple[Self | None, list[Problem]]:
        try:
            return cls.model_validate(dict(raw)), []
        except ValidationError as error:
            problems = []
            for found in error.errors(include_url=False, include_input=False):
                key = ".".join(str(part) for part in found["loc"])
                problems.append(Problem(key or "policy", _reason(found["type"], found["msg"])))
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
    """Yield each raw table under a key whose priority an earlier one has; `what` is what one table is."""
    owners: dict[int, str] = {}
    for name, table in tables.items():
        priority = integer(table, "priority")
        if priority is not None and owners.setdefault(priority, name) != name:
            reason = f"{what} {owners[priority]} has the same; priorities must differ"
            yield Problem(f"{key}.{name}.priority", reason)


def integer(table: Any, key: str) -> int | None:
    """Return an integer of a raw table if it is well formed: for `cross_check`."""
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if type(value) is int and 0 <= value <= MAX_INTEGER else None
