"""Sessions in this process, for `fit` without a gateway."""

from collections import UserDict
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from threading import Lock
from typing import BinaryIO

import msgspec

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest, session_key
from apportion.core.memory import ContentMemo, Memory
from apportion.core.models import Models
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import Estimator, TokenCounter
from apportion.core.wire.codec import decode, encode
from apportion.engine.counters import COUNTERS
from apportion.engine.models import builtin_models
from apportion.engine.policies import builtin_policies
from apportion.version import ENGINE_VERSION

_BOUNDS = Bounds(event_max_bytes=64 << 20)
"""A chat with its tool results can be larger than an event of a topic."""
_COMPOSITIONS_MAX = 64
_COUNTS_MAX = 1 << 14
_TEXTS_MAX_CHARACTERS = 1 << 24
_ENTRY_CHARACTERS = 256
"""The weight of a text without its characters."""
_rows = msgspec.json.Decoder(Session)
_builtin_policies = cache(builtin_policies)
ROWS_MAX = 10_000
ROWS_MAX_BYTES = 64 << 20


class RecentRows(UserDict[str, bytes]):
    """Rows by session key. The least recently used rows beyond a bound are dropped; one row always stays."""

    _bytes = 0

    def __getitem__(self, key: str) -> bytes:
        row = self.data[key] = self.data.pop(key)  # now the most recently used
        return row

    def __setitem__(self, key: str, row: bytes) -> None:
        self.pop(key, None)
        self.data[key] = row
        self._bytes += len(row)
        while len(self) > 1 and (len(self) > ROWS_MAX or self._bytes > ROWS_MAX_BYTES):
            del self[next(iter(self))]

    def __delitem__(self, key: str) -> None:
        self._bytes -= len(self.data.pop(key))


class RememberingCounter:
    """A counter that remembers counts of many texts, because each turn of a chat has the earlier messages."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.digest, self.count = counter.name, counter.digest, counter.count
        self._count_many = counter.count_many
        self._known = ContentMemo[int](_TEXTS_MAX_CHARACTERS, lambda _, text: len(text) + _ENTRY_CHARACTERS)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return self._known.get_all(
            texts, texts, lambda indices: self._count_many([texts[index] for index in indices])
        )


class _RememberingCounters(dict[str, TokenCounter]):
    """Counters by name; exact ones remember counts. A counter loads when it is first looked up."""

    def __init__(self, counters: Mapping[str, TokenCounter]) -> None:
        self._counters = counters

    def __missing__(self, name: str) -> TokenCounter:
        counter = self._counters[name]
        self[name] = counter if isinstance(counter, Estimator) else RememberingCounter(counter)
        return self[name]


class LocalSessions:
    """An engine and the rows of its sessions. Threads may share it; it answers them one after another."""

    def __init__(
        self,
        policies: Iterable[Policy] = (),
        *,
        models: Models | None = None,
        counters: Mapping[str, TokenCounter] = COUNTERS,
        rows: MutableMapping[str, bytes] | None = None,
        events: BinaryIO | None = None,
        decisions: BinaryIO | None = None,
    ) -> None:
        """Start with the built-in policies and `policies`; `models` replaces the built-in table of models.

        `counters` can have the counters of own files, too: `counters_with({"mine": "tokenizer.json"})`.
        `rows` keeps the sessions' rows by session key. By default, memory holds the last 10,000
        sessions, at most 64 MiB of rows. Accepted events and their decisions are written as JSON lines to the
        given files, which `apportion verify` reads.
        """
        catalogue = Catalogue([*_builtin_policies(), *policies])
        memory = Memory(_COMPOSITIONS_MAX, _COUNTS_MAX)
        self.models = builtin_models() if models is None else models
        self.counters = counters
        engine = Engine(ENGINE_VERSION, _RememberingCounters(counters), models=self.models)
        self._composer = Composer(engine, catalogue, "fit", memory)
        self._rows = RecentRows() if rows is None else rows
        self._events, self._decisions = events, decisions
        self._lock = Lock()

    def forget(self, session_id: str, *, tenant: str = "default") -> None:
        """Drop the row of a session, if there is one."""
        with self._lock:
            self._rows.pop(session_key(tenant, session_id), None)

    def compose(self, request: ContextRequest, /, *, with_decision: bool = True) -> Answered:  # noqa: ARG002 - a gateway's clients need it
        """Return the answer to a request, and keep its session's next row.

        Raises:
            EventError: the request is refused, and its session is unchanged.
        """
        value = encode(request)
        event = decode(value, _BOUNDS)
        key = session_key(event.tenant, event.session_id)
        with self._lock:
            row = self._rows.get(key)
            session = EMPTY if row is None else _rows.decode(row)
            after, answered = self._composer.handle(event, session)
            assert answered is not None, "a request has an answer"
            _write_line(self._events, value)
            _write_line(self._decisions, encode(answered.decision))
            self._rows[key] = encode(after)
        return answered


def _write_line(file: BinaryIO | None, line: bytes) -> None:
    if file is not None:
        file.write(line + b"\n")
        file.flush()
