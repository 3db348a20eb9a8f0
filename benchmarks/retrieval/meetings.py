"""Cases from QMSum: questions about meetings, and the turns that answer them.

The data are `data/ALL/jsonl/test.jsonl` of the repository Yale-LILY/QMSum (MIT), given by path. Questions
about whole meetings are left out: they have no evidence.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.retrieval.cases import Case, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.sentences import sentences_of


def meeting_cases(file: Path) -> Iterator[Case]:
    """Yield the specific questions of each meeting.

    Raises:
        DataError: the file is not QMSum's.
    """
    try:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            yield from _cases(f"meeting {number:02}", json.loads(line))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} is no file of Yale-LILY/QMSum's data/ALL/jsonl: {error!r}") from error


def _cases(group: str, meeting: Mapping[str, Any]) -> Iterator[Case]:
    sources = tuple(
        Source(f"{place:04}", sentences_of(f"{turn['speaker']}: {turn['content']}"), joined_by=" ")
        for place, turn in enumerate(meeting["meeting_transcripts"])
    )
    for number, question in enumerate(meeting["specific_query_list"]):
        answering = _places(question["relevant_text_span"], len(sources))
        units = tuple(
            frozenset((place, part) for part in range(len(sources[place].parts))) for place in answering
        )
        if units:
            yield Case(
                name=f"{group}/{number:02}",
                group=group,
                kind="specific",
                query=question["query"],
                sources=sources,
                evidence=frozenset().union(*units),
                newest_first=range(len(sources))[::-1],
                units=units,
            )


def _places(spans: Sequence[Sequence[str]], count: int) -> list[int]:
    return sorted(
        {place for first, last in spans for place in range(int(first), int(last) + 1) if place < count}
    )
