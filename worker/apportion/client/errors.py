"""Errors of calls to a gateway."""


class GatewayError(Exception):
    """A call that failed. `docs/gateway.md` lists the codes of a gateway.

    `status` is the status of the response; None without a response. `pointer` is the place in the event, such
    as `$.candidates[3].lane`. `request_id` names the request. Both are empty if unknown.
    """

    def __init__(
        self, code: str, message: str, *, status: int | None = None, pointer: str = "", request_id: str = ""
    ) -> None:
        super().__init__(f"{code}: {message}" + (f" (at {pointer})" if pointer else ""))
        self.code = code
        self.message = message
        self.status = status
        self.pointer = pointer
        self.request_id = request_id


class RefusedError(GatewayError):
    """An event that is refused. The same event is refused again."""


class UnansweredError(GatewayError):
    """A call without an answer before its deadline. The event may have been taken.

    Repeat the call with the same event to get its answer; a session is charged only once. `retry_after_s` is
    the pause that the gateway asks for; 0: none.
    """

    retry_after_s = 0.0
