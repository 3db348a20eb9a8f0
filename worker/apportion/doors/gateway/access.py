"""Access of callers: a bearer token covers only its tenants and policies."""

from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import ip_address

from apportion.core.events import ContextRequest, Event
from apportion.doors.gateway.problems import ProblemError
from apportion.settings import Settings, SettingsError
from apportion.settings.gateway_tokens import TokenGrant, read_tokens, token_digest


class Access:
    """The grants of all tokens; without tokens, each caller may do everything."""

    def __init__(self, grants: Mapping[bytes, TokenGrant] | None, default_policy: str) -> None:
        self._grants = grants
        self._default_policy = default_policy

    def grant_of(self, authorization: str | None, host: str) -> TokenGrant | None:
        """Return the grant of a caller's `Authorization` header; None: everything is granted.

        Without tokens, `host` must be a loopback name. So a web page cannot call the gateway by a host name
        of its own that resolves to this machine.

        Raises:
            ProblemError: the header has no known token, or the host is not a loopback name.
        """
        if self._grants is None:
            if not _is_loopback(host):
                message = "a gateway without tokens is called as localhost: do so, or set gateway_tokens_file"
                raise ProblemError(HTTPStatus.FORBIDDEN, "forbidden", message)
            return None
        scheme, _, token = (authorization or "").partition(" ")
        grant = self._grants.get(token_digest(token.strip()))
        if scheme.lower() != "bearer" or grant is None:
            message = "send a token that the gateway knows, as `Authorization: Bearer …`"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ProblemError(HTTPStatus.UNAUTHORIZED, "unauthorized", message, headers=headers)
        return grant

    def require(self, grant: TokenGrant | None, event: Event) -> None:
        """Check that a grant covers an event.

        Raises:
            ProblemError: it does not cover the event's tenant or policy.
        """
        policies = {}
        if isinstance(event, ContextRequest):
            policies["$.policy"] = event.policy or self._default_policy
        self.require_names(grant, event.tenant, policies)

    def require_names(self, grant: TokenGrant | None, tenant: str, policies: Mapping[str, str]) -> None:
        """Check that a grant covers a tenant, and policies by their pointers in the call.

        Raises:
            ProblemError: it does not cover the tenant or a policy.
        """
        if grant is None:
            return
        if tenant not in grant.tenants:
            raise _forbidden("this token does not speak for this tenant", "$.tenant")
        for pointer, policy in policies.items():
            if grant.policies is not None and policy not in grant.policies:
                raise _forbidden("this token does not cover this policy", pointer)


def create_access(settings: Settings) -> Access:
    """Return the access that the settings describe.

    Raises:
        SettingsError: the file of tokens is invalid, or other machines would reach a gateway without tokens.
    """
    path = settings.gateway_tokens_file
    if path is not None:
        return Access(read_tokens(path), settings.default_policy)
    if not _is_loopback(settings.gateway_host):
        origin = settings.origin("gateway_host")
        message = "other machines reach this address: set gateway_tokens_file, or leave gateway_host out"
        raise SettingsError([f"gateway_host ({origin}): {message}"])
    return Access(None, settings.default_policy)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _forbidden(message: str, pointer: str) -> ProblemError:
    return ProblemError(HTTPStatus.FORBIDDEN, "forbidden", message, pointer=pointer)
