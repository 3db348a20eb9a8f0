"""Chats cut to a token limit: the messages that fit, and the decisions on them.

A chat comes in the shape of a provider or framework, and leaves in the same shape. This package only
translates shapes; an engine in this process or a gateway decides.
"""

from apportion.doors.fitting.fit import fit as fit
from apportion.doors.fitting.fit import fit_async as fit_async
from apportion.doors.fitting.fit import fit_request as fit_request
from apportion.doors.fitting.fit import fit_request_async as fit_request_async
from apportion.doors.fitting.local_sessions import LocalSessions as LocalSessions
from apportion.doors.fitting.results import AsyncFitClient as AsyncFitClient
from apportion.doors.fitting.results import FitAnswer as FitAnswer
from apportion.doors.fitting.results import FitClient as FitClient
from apportion.doors.fitting.results import FitError as FitError
from apportion.doors.fitting.results import FitOptions as FitOptions
from apportion.doors.fitting.results import Fitted as Fitted
from apportion.doors.fitting.shapes.anthropic import AnthropicChat as AnthropicChat
