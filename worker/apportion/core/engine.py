"""Engine: everything that composing needs besides its input. The shell creates it once."""

from collections.abc import Iterable, Mapping

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest
from apportion.core.fingerprints import Secrets
from apportion.core.models import Model, Models
from apportion.core.strategy_api.policy import BY_MODEL, Policy
from apportion.core.text.tokens import CounterName, TokenCounter

DEFAULT_COUNTER = CounterName.O200K_BASE


class Measure(Struct, frozen=True):
    """The counter of a request, and the row of the model that it or its policy names.

    `counted` is the same row if the policy counts by the model. `is_foreign` is true if the model, or else
    the provider, counts by other counters.
    """

    counter: TokenCounter
    named: Model | None = None
    counted: Model | None = None
    is_foreign: bool = False


class Engine(Struct, frozen=True):
    """The engine's version, counters, secrets, and the most omitted candidates that a decision lists."""

    version: str
    counters: Mapping[str, TokenCounter]
    secrets: Secrets = Secrets()
    omitted_max: int = 1_000
    models: Models = Models()

    def load_counters(self, policies: Iterable[Policy]) -> None:
        """Load the counters of policies now, so that no answer waits for one to load.

        Raises:
            EventError, MissingExtraError: as raised by `counter`.
        """
        for policy in policies:
            row = self.models.find(policy.model or "")
            if policy.counter != BY_MODEL:
                self.counter(policy.counter)
            if row is not None:
                self.counter(row.counter)

    def counter(self, name: str) -> TokenCounter:
        """Return the counter of that name.

        Raises:
            EventError: there is none. Only the name of a user's file can be missing.
            MissingExtraError: its library is not installed.
        """
        try:
            return self.counters[name]
        except KeyError:
            text = f"no counter is named {name}; name its file in the setting `counters`"
            raise EventError(ErrorCode.UNKNOWN_COUNTER, text, "$.policy") from None

    def measure(self, request: ContextRequest, policy: Policy) -> Measure:
        """Return the counter of a request, and the model that it or its policy names.

        Raises:
            EventError: the policy counts by a model that is not named, or has no row in the table, or the
                counter is unknown.
        """
        name, pointer = policy.model, "$.policy"
        if request.model is not UNSET:
            name, pointer = request.model, "$.model"
        if policy.counter == BY_MODEL and not name:
            text = f"policy {policy.name} counts by the model; name it, or set `model` in the policy"
            raise EventError(ErrorCode.MISSING_FIELD, text, "$.model")
        if name and (policy.counter == BY_MODEL or policy.by_model):
            row = self.models.row(name, pointer)
            return Measure(self.counter(row.counter), row, row)
        named = self.models.find(name) if name else None
        counters = {named.counter} if named else self.models.counters_of(request.provider or "")
        is_foreign = bool(counters) and policy.counter not in counters
        return Measure(self.counter(policy.counter), named, is_foreign=is_foreign)
