"""The client of a worker's health endpoints, for health checks of containers."""

from http.client import HTTPConnection, HTTPException

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - such a worker listens here
_LINE_MAX_BYTES = 4096


class UnhealthyError(Exception):
    """The worker reports that it is unhealthy, or does not answer."""

    code = "unhealthy"


def ask(host: str, port: int, path: str, timeout_s: float) -> None:
    """Request the health endpoint `path`; raise UnhealthyError unless it answers 200 within `timeout_s`."""
    connection = HTTPConnection(_ANYWHERE.get(host, host), port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.read(_LINE_MAX_BYTES).decode("utf-8", "replace").strip()
    except TimeoutError:
        raise UnhealthyError(f"no answer from {host}:{port} within {timeout_s:g} s") from None
    except (OSError, HTTPException) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise UnhealthyError(f"no answer from {host}:{port}: {why}") from None
    finally:
        connection.close()
    if response.status != 200:  # noqa: PLR2004 - HTTP's OK
        raise UnhealthyError(answer.replace("\n", "; ") or f"HTTP status {response.status}")
