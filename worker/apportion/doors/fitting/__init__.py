"""Chats cut to a token limit: the messages that fit, with their decisions.

A chat comes in OpenAI's or Anthropic's shape and leaves in the same shape. Strategies choose; this package
only translates shapes, and asks an engine in this process or a gateway.
"""

from apportion.doors.fitting.chats import AnthropicChat
from apportion.doors.fitting.fit import fit, fit_async
from apportion.doors.fitting.local_sessions import LocalSessions
from apportion.doors.fitting.results import AsyncFitClient, FitAnswer, FitClient, FitError, FitOptions, Fitted

__all__ = [
    "AnthropicChat",
    "AsyncFitClient",
    "FitAnswer",
    "FitClient",
    "FitError",
    "FitOptions",
    "Fitted",
    "LocalSessions",
    "fit",
    "fit_async",
]
