"""Timeline of policies: the catalogue for each record time, from the records of the policies topic.

A change counts for records that were recorded `settle_ms` or more after it. So a repeated event meets the
same policies on every worker. The policy files of a group follow the same rule: the topic also holds the
files with which its workers started.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.policies.catalogue import Catalogue
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.wire.cloudevents import event_value, require_readable
from apportion.core.wire.not_json import why_not_json
from apportion.core.wire.record import Record

POLICY_TYPE = "context-policy"
FILES_TYPE = "context-policy-files"
_RESERVED = b"#"
"""The first character of keys that are no policies; policy names cannot contain it."""
_ALWAYS_MS = -(2**63)
_PROBLEMS_MAX = 12


class Published(Struct, frozen=True):
    """A published version of a policy (None: removed), and the record time from which it counts."""

    key: str
    policy: Policy | None
    counts_from_ms: int


class Files(Struct, frozen=True):
    """The policy files of the group, and the record time from which they count."""

    policies: tuple[Policy, ...]
    counts_from_ms: int


class PolicyRefusal(Struct, frozen=True):
    """A refused record of the policies topic, and the error."""

    record: Record
    error: EventError


class Timeline:
    """The catalogues over record time; immutable."""

    def __init__(
        self,
        own: Iterable[Policy],
        group: str,
        settle_ms: int,
        published: tuple[Published, ...] = (),
        files: tuple[Files, ...] = (),
    ) -> None:
        """Take the changes from the topic, in order; `own` are the policies of this worker's files."""
        self.own = tuple(own)
        self.published = published
        self.files = files
        self._group = group
        self._settle_ms = settle_ms
        moments_ms = {change.counts_from_ms for change in published}
        moments_ms |= {change.counts_from_ms for change in files}
        self._moments_ms = sorted(moments_ms)
        self._catalogues: dict[int, Catalogue] = {}

    def extended(
        self, records: Iterable[Record], bounds: Bounds
    ) -> tuple["Timeline", tuple[PolicyRefusal, ...]]:
        """Return the timeline extended by the next records, and the refused ones, which change nothing."""
        published, files = list(self.published), list(self.files)
        current = {change.key: change.policy for change in published}
        refusals = []
        for record in records:
            try:
                change = self._change(record, current, bounds)
            except EventError as error:
                refusals.append(PolicyRefusal(record, error))
                continue
            if isinstance(change, Published):
                current[change.key] = change.policy
                published.append(change)
            elif change is not None:
                files.append(change)
        timeline = Timeline(self.own, self._group, self._settle_ms, tuple(published), tuple(files))
        return timeline, tuple(refusals)

    def __iter__(self) -> Iterator[Policy]:
        """Yield all policies that ever counted, from files and from the topic."""
        yield from self.own
        for files in self.files:
            yield from files.policies
        yield from (change.policy for change in self.published if change.policy is not None)

    def catalogue_at(self, recorded_ms: int) -> Catalogue:
        """Return the policies for an event of that record time.

        The policies of files come first, then the published ones, in the order of their last publication. Of
        two with equal name and version, or with equal `effective_from`, the later counts.
        """
        index = bisect_right(self._moments_ms, recorded_ms)
        catalogue = self._catalogues.get(index)
        if catalogue is None:
            catalogue = self._made(self._moments_ms[index - 1] if index else _ALWAYS_MS)
            self._catalogues[index] = catalogue
        return catalogue

    @property
    def latest_files(self) -> tuple[Policy, ...] | None:
        """The group's latest policy files in the topic; None: no worker of the group has published any."""
        return self.files[-1].policies if self.files else None

    @property
    def holding_files(self) -> tuple[tuple[Policy, int | None], ...]:
        """The group's latest policy files, else own ones, each with the record time from which it counts."""
        since: dict[str, int | None] = {}
        for index, files in enumerate(self.files):
            counts_from_ms = files.counts_from_ms if index else None
            since = {policy.digest: since.get(policy.digest, counts_from_ms) for policy in files.policies}
        latest = self.latest_files
        policies = self.own if latest is None else latest
        return tuple((policy, since.get(policy.digest)) for policy in policies)

    @property
    def holding(self) -> tuple[Published, ...]:
        """The versions that are published and not removed, in the order of their last publication.

        Each counts from its first publication after its last removal.
        """
        holding: dict[str, Published] = {}
        for change in self.published:
            first = holding.pop(change.key, None)
            if change.policy is not None:
                holding[change.key] = first or change
        return tuple(holding.values())

    def _change(
        self, record: Record, current: Mapping[str, Policy | None], bounds: Bounds
    ) -> Published | Files | None:
        """Return the change to the current versions; None for a key of other groups; raise EventError."""
        require_readable(record)
        counts_from_ms = record.timestamp_ms + self._settle_ms
        if record.key is not None and record.key.startswith(_RESERVED):
            if record.key != files_key(self._group) or not record.value:
                return None
            return Files(_files(record.value), counts_from_ms)
        key, policy = _published(record, bounds)
        before = current.get(key)
        if policy is not None and before is not None and before.digest != policy.digest:
            message = "this version is published with other content; give the policy a new version"
            raise EventError(ErrorCode.POLICY_CHANGED, message, "$.version")
        return Published(key, policy, counts_from_ms)

    def _made(self, until_ms: int) -> Catalogue:
        """Return the catalogue at a record time.

        The group's latest files that count by then apply. Its first files always count, because no event was
        composed under earlier ones. For the same reason, own policies with new names count at once.
        """
        settled = [files.policies for files in self.files if files.counts_from_ms <= until_ms]
        first = [files.policies for files in self.files[:1]] or [self.own]
        shared = (first + settled)[-1]
        published: dict[str, Policy] = {}
        for change in self.published:
            if change.counts_from_ms <= until_ms:
                published.pop(change.key, None)
                if change.policy is not None:
                    published[change.key] = change.policy
        known = {policy.name for policy in (*shared, *published.values())}
        new = (policy for policy in self.own if policy.name not in known)
        return Catalogue((*new, *shared, *published.values()))


def policy_key(policy: Policy) -> str:
    """Return the key under which a policy is published."""
    return f"{policy.name}@{policy.version}"


def policy_value(policy: Policy) -> bytes:
    """Return the value of a published policy: its keys as written, without defaults."""
    return msgspec.json.encode({"type": POLICY_TYPE} | _written(policy))


def files_key(group: str) -> bytes:
    """Return the key of the record with a group's policy files."""
    return _RESERVED + f"files/{group}".encode()


def files_value(policies: Iterable[Policy]) -> bytes:
    """Return the value of the record with a group's policy files."""
    return msgspec.json.encode({"type": FILES_TYPE, "policies": [_written(policy) for policy in policies]})


def _written(policy: Policy) -> dict[str, Any]:
    return policy.model_dump(mode="json", exclude_unset=True)


def _published(record: Record, bounds: Bounds) -> tuple[str, Policy | None]:
    """Return the key of a record, and its policy, None if it removes the policy; raise EventError."""
    value = event_value(record, bounds)
    if not value:
        return (record.key or b"").decode(errors="replace"), None
    if len(value) > bounds.event_max_bytes:
        message = f"the policy has {len(value)} bytes, more than {bounds.event_max_bytes}"
        raise EventError(ErrorCode.TOO_LARGE, message)
    policy = _policy(_object(value, POLICY_TYPE))
    key = policy_key(policy)
    if record.key != key.encode():
        message = "the record's key is not name@version of its policy; set it so"
        raise EventError(ErrorCode.WRONG_KEY, message)
    return key, policy


def _files(value: bytes) -> tuple[Policy, ...]:
    given = _object(value, FILES_TYPE).get("policies")
    if not isinstance(given, list) or not all(isinstance(raw, dict) for raw in given):
        raise EventError(ErrorCode.WRONG_TYPE, "expected a list of policies", "$.policies")
    return tuple(_policy(raw, f"$.policies[{index}]") for index, raw in enumerate(given))


def _object(value: bytes, kind: str) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(value)
    except RecursionError:
        raise EventError(ErrorCode.TOO_DEEP, "nested too deep for a policy") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventError(ErrorCode.NOT_JSON, why_not_json(value, str(error))) from None
    if not isinstance(decoded, dict):
        raise EventError(ErrorCode.WRONG_TYPE, "expected an object")
    if decoded.pop("type", None) != kind:
        raise EventError(ErrorCode.UNKNOWN_TYPE, f"expected {kind}", "$.type")
    return decoded


def _policy(raw: Mapping[str, Any], pointer: str = "$") -> Policy:
    """Return the policy. Its problems are joined into one error, which points to the first key."""
    try:
        return parse_policy(raw)
    except PolicyError as error:
        problems = error.problems
    message = "; ".join(f"{problem.key}: {problem.reason}" for problem in problems[:_PROBLEMS_MAX])
    more = len(problems) - _PROBLEMS_MAX
    message += f"; and {more} more (apportion policies check tells all)" if more > 0 else ""
    raise EventError(ErrorCode.INVALID_POLICY, message, f"{pointer}.{problems[0].key}")
