"""Admin clients, and the errors for brokers that do not answer or that refuse us."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from apportion.settings import Settings
from apportion.shell.kafka.connection import connection_arguments, why_unusable


class BrokerUnreachableError(Exception):
    """No broker answered, or none can be used; the message names the addresses, or the reason if known."""

    code = "broker_unreachable"

    def __init__(self, settings: Settings, why: str = "") -> None:
        addresses, origin = ", ".join(settings.brokers), settings.origin("brokers")
        within = f"no Kafka broker answered at {addresses} within {settings.request_timeout_s:g} s"
        found = f"no Kafka broker can be used: {why}" if why else f"{within}; is one running there?"
        super().__init__(f"{found} (brokers: {origin})")


class BrokerRefusedError(Exception):
    """A broker answers and refuses us; the message gives the reason and a remedy."""

    code = "broker_refused"


class NotAllowedError(Exception):
    """The brokers accept us, but no ACL allows the operation; the message names the resource."""

    code = "not_allowed"

    def __init__(self, settings: Settings, what: str) -> None:
        super().__init__(
            f"no ACL allows the user {settings.sasl_username or 'of this client'} what it needs of {what}; "
            "deploy/acls.sh makes those that a worker needs"
        )


_NOT_ALLOWED: tuple[tuple[type[KafkaError], str], ...] = (
    (TopicAuthorizationFailedError, "the topic {}"),
    (GroupAuthorizationFailedError, "the group {}"),
    (TransactionalIdAuthorizationFailed, "its transactional ids"),
    (ClusterAuthorizationFailedError, "the cluster"),
)


def not_allowed(settings: Settings, error: BaseException | None) -> NotAllowedError | None:
    """Return the error to raise if no ACL allows an operation; None for any other error."""
    for kind, what in _NOT_ALLOWED:
        if isinstance(error, kind):
            names = error.args[0] if error.args else settings.app_id
            several = sorted(map(str, names)) if isinstance(names, set | frozenset | list) else [str(names)]
            return NotAllowedError(settings, what.format(", ".join(several)))
    return None


def why_unanswered(settings: Settings, error: BaseException) -> Exception:
    """Return the error to raise after a failed operation: no ACL allows it, or no broker answers."""
    return not_allowed(settings, error) or BrokerUnreachableError(settings)


@asynccontextmanager
async def admin_client(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield an admin client that is connected to a broker.

    Raises:
        SettingsError: a file with a certificate or a secret is invalid.
        BrokerRefusedError: a broker answers, but listener, certificate or login do not match the settings.
        NotAllowedError: no ACL allows the operation.
        BrokerUnreachableError: no broker answered within `request_timeout_s`, or one stopped answering.
    """
    timeout_s = settings.request_timeout_s
    client = AIOKafkaAdminClient(
        **connection_arguments(settings),
        client_id=settings.app_id,
        # Brokers are tried in turn, so a silent broker must leave time for the next.
        request_timeout_ms=int(timeout_s * 1000 / len(settings.brokers)),
    )
    try:
        async with asyncio.timeout(timeout_s):
            await client.start()
        yield client
    except (KafkaError, TimeoutError) as error:
        raise await _cause(settings, error) from error
    finally:
        await client.close()


async def _cause(settings: Settings, error: Exception) -> Exception:
    if isinstance(error, KafkaError) and not_allowed(settings, error) is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.request_timeout_s):
                is_refused, why = await why_unusable(settings)
            return BrokerRefusedError(why) if is_refused else BrokerUnreachableError(settings, why)
    return why_unanswered(settings, error)
