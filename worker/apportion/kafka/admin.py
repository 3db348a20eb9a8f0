"""Reaching the brokers to administer them.

Decides how long to wait, and what a broker is called that is away or does not take us. Never touches a topic.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from apportion.kafka.connection import connection_arguments, why_refused
from apportion.settings import Settings


class BrokerUnreachableError(Exception):
    """No broker answered; names the addresses that were tried."""

    code = "broker_unreachable"

    def __init__(self, settings: Settings) -> None:
        addresses = ", ".join(settings.brokers)
        super().__init__(
            f"no Kafka broker answered at {addresses} within {settings.request_timeout_s:g} s; "
            f"is one running there? (brokers: {settings.origin('brokers')})"
        )


class BrokerRefusedError(Exception):
    """A broker is there and does not take us; says why, and what to do."""

    code = "broker_refused"


class NotAllowedError(Exception):
    """The brokers let us in, and no ACL allows what we ask for; names the resource."""

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
    """Return what is told where an error says that no ACL allows something; None: it says something else."""
    for kind, what in _NOT_ALLOWED:
        if isinstance(error, kind):
            names = error.args[0] if error.args else settings.app_id
            return NotAllowedError(settings, what.format(_names(names)))
    return None


def why_unanswered(settings: Settings, error: BaseException) -> Exception:
    """Return what is told where a broker did not do what it was asked for: that it may not, or is away."""
    return not_allowed(settings, error) or BrokerUnreachableError(settings)


def _names(names: object) -> str:
    return ", ".join(sorted(map(str, names))) if isinstance(names, set | frozenset | list) else str(names)


@asynccontextmanager
async def admin_client(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield an admin client that has reached a broker.

    Raises:
        SettingsError: a file with a certificate or a secret is not what it should be.
        BrokerRefusedError: one is there, but its listener, certificate or login is not as in the settings.
        NotAllowedError: no ACL allows us what we ask for.
        BrokerUnreachableError: none answered within `request_timeout_s`, or one no longer does.
    """
    timeout_s = settings.request_timeout_s
    client = AIOKafkaAdminClient(
        **connection_arguments(settings),
        client_id=settings.app_id,
        # brokers are tried one after another: a silent one must leave time for the next
        request_timeout_ms=int(timeout_s * 1000 / len(settings.brokers)),
    )
    try:
        async with asyncio.timeout(timeout_s):
            await _start(client, settings)
        yield client
    except (KafkaError, TimeoutError) as error:
        raise why_unanswered(settings, error) from error
    finally:
        await client.close()


async def _start(client: AIOKafkaAdminClient, settings: Settings) -> None:
    try:
        await client.start()
    except KafkaError:
        if why := await why_refused(settings):
            raise BrokerRefusedError(why) from None
        raise
