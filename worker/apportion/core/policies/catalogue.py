"""Catalogue of policies: resolves a name and an event time to a version of a policy."""

from collections.abc import Iterable, Iterator

from apportion.core.errors import ErrorCode, EventError
from apportion.core.strategy_api.policy import Policy


class Catalogue:
    """An immutable set of policies."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Take policies. If several share name and version, the last one counts, in its own position."""
        self._policies: dict[tuple[str, str], Policy] = {}
        for policy in policies:
            self._policies.pop((policy.name, policy.version), None)
            self._policies[policy.name, policy.version] = policy
        self._versions: dict[str, list[Policy]] = {}
        for policy in sorted(self, key=lambda policy: policy.effective_from_us):
            self._versions.setdefault(policy.name, []).insert(0, policy)

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._policies.values())

    def resolve(self, name: str, event_us: int, pointer: str = "$.policy") -> Policy:
        """Return the version that holds at an event time: latest `effective_from`; ties: the last given.

        Raises EventError, with the pointer, if no policy has that name, or none of its versions holds yet.
        """
        for policy in self._versions.get(name, ()):
            if policy.effective_from_us <= event_us:
                return policy
        known = ", ".join(sorted(self._versions))
        message = f"no policy of that name holds at the time of the event; known: {known}"
        raise EventError(ErrorCode.UNKNOWN_POLICY, message, pointer)
