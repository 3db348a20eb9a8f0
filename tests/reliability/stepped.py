"""A worker that ends, or stops, at a step named by the variable `STEP`: `python stepped.py run`.

`STEP` is `module:name:when:count:signal`: at the n-th call of a function or method, `before` it or `after`
it, the process sends itself that signal without warning. `PROXIED`, as `port:other,port:other`, redirects
connections from a port of this machine to the other. `COMPACTION_LAG_S` is the lag that the worker expects of
its changelog. With `LEFT_OUT`, a worker stopped at its step joins no group any more, so the other workers do
not learn of its writes. Without these variables, the program is `apportion`.
"""

import asyncio
import importlib
import inspect
import os
import signal
from collections.abc import Callable
from functools import reduce, wraps
from itertools import count
from typing import Any

from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance

from apportion.cli import main
from apportion.shell.kafka import topics

STEP = "STEP"
PROXIED = "PROXIED"
COMPACTION_LAG_S = "COMPACTION_LAG_S"
LEFT_OUT = "LEFT_OUT"


def install(step: str, *, left_out: bool = False) -> None:
    """Wrap the function that a step names; `left_out`: the process joins no group after the step."""
    module_name, path, when, call, name = step.split(":")
    *owners, attribute = path.split(".")
    owner: Any = reduce(getattr, owners, importlib.import_module(module_name))
    number, calls = signal.Signals[name], count(1)

    def strike(at: str) -> None:
        if at == when and next(calls) == int(call):
            os.kill(os.getpid(), number)
            if left_out:
                CoordinatorGroupRebalance.perform_group_join = _never

    setattr(owner, attribute, _wrapped(getattr(owner, attribute), strike))


async def _never(*_: Any) -> None:
    await asyncio.Event().wait()


def reroute(ports: dict[str, str]) -> None:
    """Replace ports in connections: brokers advertise their own ports, despite a proxy."""
    connect = asyncio.BaseEventLoop.create_connection

    async def rerouted(self: Any, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return await connect(self, factory, host, int(ports.get(str(port), port)), **options)

    asyncio.BaseEventLoop.create_connection = rerouted  # type: ignore[method-assign, assignment]


def _wrapped(function: Callable[..., Any], strike: Callable[[str], None]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*arguments: Any, **options: Any) -> Any:
            strike("before")
            result = await function(*arguments, **options)
            strike("after")
            return result

        return awaited

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        strike("before")
        result = function(*arguments, **options)
        strike("after")
        return result

    return called


if __name__ == "__main__":
    if STEP in os.environ:
        install(os.environ.pop(STEP), left_out=bool(os.environ.pop(LEFT_OUT, "")))
    if PROXIED in os.environ:
        reroute(dict(pair.split(":") for pair in os.environ.pop(PROXIED).split(",")))
    if COMPACTION_LAG_S in os.environ:
        topics._COMPACTION_LAG_S = int(os.environ.pop(COMPACTION_LAG_S))
    main()
