"""The errors of the embedded broker, each with its code."""

from enum import StrEnum
from typing import ClassVar

INSTEAD = "`docker compose up` starts Apache Kafka instead"


class BrokerErrorCode(StrEnum):
    """The codes of all errors of the embedded broker."""

    NOT_SUPPORTED = "broker_not_supported"
    NOT_INSTALLED = "broker_not_installed"
    NOT_STARTED = "broker_not_started"
    ENDED = "broker_ended"


class EmbeddedBrokerError(Exception):
    """There is no embedded broker; `place` is the platform, package, program or address concerned."""

    code: ClassVar[BrokerErrorCode]

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


class BrokerNotSupportedError(EmbeddedBrokerError):
    """The broker does not run on this platform."""

    code = BrokerErrorCode.NOT_SUPPORTED


class BrokerNotInstalledError(EmbeddedBrokerError):
    """The optional extra with the broker is not installed."""

    code = BrokerErrorCode.NOT_INSTALLED


class BrokerNotStartedError(EmbeddedBrokerError):
    """The broker did not answer Kafka requests in time; the message ends with its last output."""

    code = BrokerErrorCode.NOT_STARTED


class BrokerEndedError(EmbeddedBrokerError):
    """The broker ended while it was in use; the message ends with its last output."""

    code = BrokerErrorCode.ENDED
