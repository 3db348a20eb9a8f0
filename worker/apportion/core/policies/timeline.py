"""Which catalogue holds for a record: what the policies topic says, by when it was recorded.

Decides which records of that topic are policies, and from when they, and their removals, count. A change
counts for what is recorded `settle_ms` or more after it, so that an event that comes again meets the policies
that it met before, whoever reads it. The policy files of a group count by the same rule: they stand in the
topic too, as its workers started with them. Never reads a topic, nor a clock.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policy import Policy, PolicyError, Problem
from apportion.core.strategies import parse_policy
from apportion.core.wire.cloudevents import event_value, require_readable
from apportion.core.wire.not_json import why_not_json
from apportion.core.wire.record import Record

POLICY_TYPE = "context-policy"
FILES_TYPE = "context-policy-files"
_RESERVED = b"#"
"""How the keys of records begin that are no policies: no policy's name has this character."""
_ALWAYS_MS = -(2**63)


class Published(Struct, frozen=True):
    """A version as a record published it, or (`policy` is None) removed it; counts from a record time on."""

    key: str
    policy: Policy | None
    counts_from_ms: int


class Files(Struct, frozen=True):
    """The policies of the files with which a worker of the group started."""

    policies: tuple[Policy, ...]
    counts_from_ms: int


class PolicyRefusal(Struct, frozen=True):
    """A record that is no policy, or not the one that was published, and why."""

    record: Record
    error: EventError


class Timeline:
    """The catalogues over record time, an immutable value."""

    def __init__(
        self,
        own: Iterable[Policy],
        group: str,
        settle_ms: int,
        published: tuple[Published, ...] = (),
        files: tuple[Files, ...] = (),
    ) -> None:
        """Hold what was read of the topic, in its order; `own` are this worker's files, by their order."""
        self.own = tuple(own)
        self.published = published
        self.files = files
        self._group = group
        self._settle_ms = settle_ms
        moments_ms = {each.counts_from_ms for each in published} | {each.counts_from_ms for each in files}
        self._moments_ms = sorted(moments_ms)
        self._catalogues: dict[int, Catalogue] = {}

    def after(
        self, records: Iterable[Record], bounds: Bounds
    ) -> tuple["Timeline", tuple[PolicyRefusal, ...]]:
        """Return the timeline with the next records of the topic, in their order, and those refused.

        A refused record changes nothing: what was published before it stays.
        """
        published, files = list(self.published), list(self.files)
        held = {each.key: each.policy for each in published}
        refusals = []
        for record in records:
            try:
                change = self._change(record, held, bounds)
            except EventError as error:
                refusals.append(PolicyRefusal(record, error))
                continue
            if isinstance(change, Published):
                held[change.key] = change.policy
                published.append(change)
            elif change is not None:
                files.append(change)
        timeline = Timeline(self.own, self._group, self._settle_ms, tuple(published), tuple(files))
        return timeline, tuple(refusals)

    def __iter__(self) -> Iterator[Policy]:
        """Yield all policies that ever counted, by whomever they were given."""
        yield from self.own
        for files in self.files:
            yield from files.policies
        yield from (each.policy for each in self.published if each.policy is not None)

    def at(self, recorded_ms: int) -> Catalogue:
        """Return the policies that an event of that record time meets.

        First those of the group's files, then those published, in the order of their last publication: of
        equal name and version, and of equal `effective_from`, the later holds.
        """
        index = bisect_right(self._moments_ms, recorded_ms)
        catalogue = self._catalogues.get(index)
        if catalogue is None:
            catalogue = self._made(self._moments_ms[index - 1] if index else _ALWAYS_MS)
            self._catalogues[index] = catalogue
        return catalogue

    @property
    def latest_files(self) -> tuple[Policy, ...] | None:
        """The group's files as the topic has them last; None: no worker of the group has said them."""
        return self.files[-1].policies if self.files else None

    @property
    def holding_files(self) -> tuple[tuple[Policy, int | None], ...]:
        """The group's files as the topic has them last, each with when it counts from; None: always.

        Where the topic has none, the own ones.
        """
        since: dict[str, int | None] = {}
        for index, files in enumerate(self.files):
            counts_from_ms = files.counts_from_ms if index else None
            since = {each.digest: since.get(each.digest, counts_from_ms) for each in files.policies}
        latest = self.latest_files
        return tuple((each, since.get(each.digest)) for each in (self.own if latest is None else latest))

    @property
    def holding(self) -> tuple[Published, ...]:
        """The versions that are published and not removed, in the order of their last publication.

        Each counts from when it was published first.
        """
        held: dict[str, Published] = {}
        for each in self.published:
            first = held.pop(each.key, None)
            if each.policy is not None:
                held[each.key] = first or each
        return tuple(held.values())

    def _change(
        self, record: Record, held: Mapping[str, Policy | None], bounds: Bounds
    ) -> Published | Files | None:
        """Return what a record changes after what is held; None: it is another group's.

        Raises:
            EventError: it is no policy, or another than the version that is held.
        """
        require_readable(record)
        counts_from_ms = record.timestamp_ms + self._settle_ms
        if record.key is not None and record.key.startswith(_RESERVED):
            if record.key != files_key(self._group) or not record.value:
                return None
            return Files(_files(record.value), counts_from_ms)
        key, policy = _published(record, bounds)
        before = held.get(key)
        if policy is not None and before is not None and before.digest != policy.digest:
            message = "this version is published with other content; give the policy a new version"
            raise EventError(ErrorCode.POLICY_CHANGED, message, "$.version")
        return Published(key, policy, counts_from_ms)

    def _made(self, until_ms: int) -> Catalogue:
        """Return what counts at a moment.

        The first files count always, for nobody has composed under others. Own files of names that nobody
        knows count at once: no event has been composed under such a name.
        """
        settled = [each.policies for each in self.files if each.counts_from_ms <= until_ms]
        first = [each.policies for each in self.files[:1]] or [self.own]
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
    """Return a policy as it is published: as it was written, without defaults."""
    return msgspec.json.encode({"type": POLICY_TYPE} | _written(policy))


def files_key(group: str) -> bytes:
    """Return the key under which a group's files stand."""
    return _RESERVED + f"files/{group}".encode()


def files_value(policies: Iterable[Policy]) -> bytes:
    """Return a group's files as they stand in the topic."""
    return msgspec.json.encode({"type": FILES_TYPE, "policies": [_written(each) for each in policies]})


def _written(policy: Policy) -> dict[str, Any]:
    return policy.model_dump(mode="json", exclude_unset=True)


def _published(record: Record, bounds: Bounds) -> tuple[str, Policy | None]:
    """Return the key of a record, and the policy that it publishes, or None if it removes that.

    Raises:
        EventError: it is no policy, or another than its key says.
    """
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
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise EventError(ErrorCode.WRONG_TYPE, "expected a list of policies", "$.policies")
    return tuple(_policy(each, f"$.policies[{index}]") for index, each in enumerate(given))


def _object(value: bytes, kind: str) -> dict[str, Any]:
    """Return the keys of an event of that type, without the type."""
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


def _policy(raw: Mapping[str, Any], place: str = "$") -> Policy:
    try:
        return parse_policy(raw)
    except PolicyError as error:
        raise _refused(error.problems, place) from None


def _refused(problems: tuple[Problem, ...], place: str) -> EventError:
    """Return all problems as one error, which stands at the first; in a policy, keys are no content."""
    told = "; ".join(f"{each.key}: {each.reason}" for each in problems[:_PROBLEMS_MAX])
    more = len(problems) - _PROBLEMS_MAX
    told += f"; and {more} more (apportion policies check tells all)" if more > 0 else ""
    return EventError(ErrorCode.INVALID_POLICY, told, f"{place}.{problems[0].key}")


_PROBLEMS_MAX = 12
