"""Reaching the brokers to administer them.

Decides how long to wait, and what a broker is called that is away or does not take us. Never touches a topic.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from apportion.settings import Settings
from apportion.stream.connection import connection_arguments, why_refused


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


@asynccontextmanager
async def admin_client(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Yield an admin client that has reached a broker.

    Raises:
        SettingsError: a file with a certificate or a secret is not what it should be.
        BrokerRefusedError: one is there, but its listener, certificate or login is not as in the settings.
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
        raise BrokerUnreachableError(settings) from error
    finally:
        await client.close()


async def _start(client: AIOKafkaAdminClient, settings: Settings) -> None:
    try:
        await client.start()
    except KafkaError:
        if why := await why_refused(settings):
            raise BrokerRefusedError(why) from None
        raise
