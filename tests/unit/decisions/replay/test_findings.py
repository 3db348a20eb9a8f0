"""Places of findings: lines in files, partitions and offsets in topics."""

from msgspec import UNSET

from apportion.core.wire import codec
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import FindingKind, finding_at
from apportion.engine.offline.lines import FILE_TOPIC


def at(topic: str, offset: int) -> Record:
    return Record(topic, 3, offset, -1, None, b"")


def test_a_finding_in_files_has_the_lines_of_its_record_and_event() -> None:
    finding = finding_at(FindingKind.DIFFERENCE, "decisions", at(FILE_TOPIC, 0), at(FILE_TOPIC, 6))
    assert codec.encode(finding) == b'{"found":"difference","log":"decisions","line":1,"event_line":7}'


def test_a_finding_in_topics_has_the_offsets_of_its_record_and_event() -> None:
    finding = finding_at(FindingKind.DIFFERENCE, "decisions", at("made", 0), at("asked", 6))
    told = b'{"found":"difference","log":"decisions","partition":3,"offset":0,"event_offset":6}'
    assert codec.encode(finding) == told


def test_a_finding_without_a_record_has_the_place_of_its_event_alone() -> None:
    for topic in (FILE_TOPIC, "asked"):
        finding = finding_at(FindingKind.NO_DECISION, "decisions", None, at(topic, 6))
        assert (finding.line, finding.offset) == (UNSET, UNSET)
        assert 7 in (finding.event_line, (finding.event_offset or 0) + 1)
