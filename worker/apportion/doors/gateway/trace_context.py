"""The trace context of a call (W3C Trace Context), as headers of the event that the call becomes."""

import re
from typing import TypeAlias

from aiohttp import web

TraceHeaders: TypeAlias = tuple[tuple[str, bytes], ...]
"""Headers of an event: none, `traceparent`, or `traceparent` and `tracestate`."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_STATE_MAX_BYTES = 512
"""The size that every receiver must pass on. A longer `tracestate` is left out, as by the worker."""


def trace_headers(request: web.Request) -> TraceHeaders:
    """Return the trace context of a call as headers of an event; empty if `traceparent` is malformed."""
    parents = request.headers.getall("traceparent", ())
    if len(parents) != 1 or not _PARENT.fullmatch(parents[0].strip()):
        return ()
    parent = ("traceparent", parents[0].strip().encode())
    state = ",".join(request.headers.getall("tracestate", ())).encode(errors="surrogateescape")
    return (parent, ("tracestate", state)) if 0 < len(state) <= _STATE_MAX_BYTES else (parent,)
