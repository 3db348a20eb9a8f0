"""docs/consuming.md holds the texts that are tested, and the texts speak of our topics."""

import json

from support.commands import ROOT
from support.deployed import DEPLOY, shown

from apportion.settings import Settings

PAGE = ROOT / "docs/consuming.md"
# Of Kafka Connect's sinks, and of Confluent's S3 sink 12: read from their sources, for neither is run here.
KNOWN = {
    "connector.class", "tasks.max", "topics", "key.converter", "value.converter",
    "consumer.override.isolation.level", "consumer.override.auto.offset.reset",
    "storage.class", "s3.bucket.name", "s3.region", "s3.compression.type",
    "format.class", "format.bytearray.extension", "format.bytearray.separator", "behavior.on.null.values",
    "partitioner.class", "timestamp.extractor", "path.format", "partition.duration.ms", "locale", "timezone",
    "flush.size", "rotate.interval.ms",
}  # fmt: skip


def test_the_page_holds_the_text_that_is_tested() -> None:
    assert (DEPLOY / "consumers/consume_aiokafka.py").read_text("utf-8") in shown(PAGE)


def test_the_page_names_every_file_of_these_folders() -> None:
    page = PAGE.read_text("utf-8")
    for folder in ("clickhouse", "connect", "consumers"):
        files = [one for one in (DEPLOY / folder).rglob("*") if one.is_file()]
        assert files
        kept = [file for file in files if "node_modules" not in file.parts and file.name != "consume.js"]
        assert [file.name for file in kept if file.name not in page] == []


def test_the_sink_of_kafka_connect_has_known_keys_and_our_topic_as_bytes() -> None:
    connector = json.loads((DEPLOY / "connect/decisions-s3.json").read_bytes())
    assert set(connector) == {"name", "config"}
    config = connector["config"]
    assert set(config) <= KNOWN
    assert all(isinstance(value, str) for value in config.values())
    assert config["topics"] == Settings().decisions_topic
    # bytes from the topic to the bucket: nothing on the way reads a number, or writes it otherwise
    assert config["value.converter"].endswith("ByteArrayConverter")
    assert config["format.class"].endswith("ByteArrayFormat")
    assert config["format.bytearray.separator"] == "\n"


def test_clickhouse_consumes_our_topics() -> None:
    queues = (DEPLOY / "clickhouse/2-queues.sql").read_text("utf-8")
    for topic in (Settings().decisions_topic, Settings().dead_letters_topic):
        assert f"kafka_topic_list = '{topic}'" in queues


def test_the_consumers_have_thirty_lines_or_few_more() -> None:
    for file in (*DEPLOY.glob("consumers/*.py"), DEPLOY / "consumers/node/consume.ts"):
        assert len(file.read_text("utf-8").splitlines()) <= 40
