"""Deadline of a call, and the rules by which it is repeated within that time."""

from time import monotonic
from typing import TypedDict

from tenacity import retry_if_exception_type, stop_before_delay, wait_exception, wait_random_exponential
from tenacity.retry import retry_base
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from apportion.client.errors import UnansweredError

_PAUSE_MAX_S = 5.0


class Deadline:
    """The end of a call."""

    def __init__(self, seconds: float) -> None:
        self._end_s = monotonic() + seconds

    def left_s(self) -> float:
        """Return the seconds that are left."""
        return max(0.0, self._end_s - monotonic())


class RetryRules(TypedDict):
    """The rules, as arguments of tenacity's loops."""

    retry: retry_base
    wait: wait_base
    stop: stop_base
    reraise: bool


def retry_rules(deadline_s: float, backoff_s: float) -> RetryRules:
    """Return the rules: calls without an answer are repeated after growing random pauses.

    A pause is at least what the gateway asks for. No pause ends after the deadline.
    """
    return RetryRules(
        retry=retry_if_exception_type(UnansweredError),
        wait=wait_exception(_asked_s) + wait_random_exponential(multiplier=backoff_s, max=_PAUSE_MAX_S),
        stop=stop_before_delay(deadline_s),
        reraise=True,
    )


def _asked_s(error: BaseException) -> float:
    assert isinstance(error, UnansweredError), "only these are repeated"
    return error.retry_after_s
