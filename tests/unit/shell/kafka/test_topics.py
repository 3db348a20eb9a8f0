"""Settings of each topic, stated so that no broker decides them: see `docs/operations/install.md`."""

import pytest

from apportion.settings import Settings
from apportion.shell.kafka.topics import plan_topics

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS
KEPT = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)}
AUDITED = {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)}
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)}
STAMPED = {"message.timestamp.type": "LogAppendTime"}
PLANNED = {
    "context-requests": KEPT | STAMPED,
    "context-policies": COMPACTED | STAMPED | {"min.compaction.lag.ms": str(8 * DAY_MS)},
    "context-composed": KEPT,
    "context-decisions": AUDITED,
    "context-dead-letters": AUDITED,
    "apportion-sessions-changelog": COMPACTED | {"min.compaction.lag.ms": str(HOUR_MS)},
    "context-usage": AUDITED,
}
SESSION_MAX_MS = 1_800_000
"""Brokers take no longer session (`group.max.session.timeout.ms`)."""


def configs(settings: Settings) -> dict[str, dict[str, str]]:
    return {topic.name: dict(topic.configs) for topic in plan_topics(settings)}


@pytest.mark.parametrize(("production", "copies", "in_sync"), [(False, 1, "1"), (True, 3, "2")])
def test_retention_compression_and_copies_of_every_topic_are_stated(
    production: bool,  # noqa: FBT001 - a setting's value
    copies: int,
    in_sync: str,
) -> None:
    settings = Settings(production=production)
    common = {
        "max.message.bytes": str(4 << 20),
        "min.insync.replicas": in_sync,
        "compression.type": "producer",
    }
    assert configs(settings) == {name: common | own for name, own in PLANNED.items()}
    assert {topic.replication_factor for topic in plan_topics(settings)} == {copies}


def test_every_topic_has_the_set_partitions_except_policies_with_one() -> None:
    counts = {topic.name: topic.partitions for topic in plan_topics(Settings())}
    assert counts == dict.fromkeys(PLANNED, 24) | {"context-policies": 1}


def test_retention_is_a_setting_and_policies_outlast_requests() -> None:
    made = configs(Settings(retention_s=3_600, audit_retention_s=7_200))
    assert made["context-requests"]["retention.ms"] == made["context-composed"]["retention.ms"] == "3600000"
    assert (
        made["context-decisions"]["retention.ms"] == made["context-dead-letters"]["retention.ms"] == "7200000"
    )
    assert int(made["context-policies"]["min.compaction.lag.ms"]) == HOUR_MS + DAY_MS


def test_a_row_outlasts_every_session_before_a_later_one_may_replace_it() -> None:
    lag_ms = int(configs(Settings())["apportion-sessions-changelog"]["min.compaction.lag.ms"])
    assert lag_ms > SESSION_MAX_MS
