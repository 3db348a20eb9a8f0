"""Cases from LoCoMo: questions about long dialogues, and the turns that answer them.

The data are `data/locomo10.json` of the repository snap-research/locomo (CC BY-NC 4.0), given by path.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.retrieval.cases import Case, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.sentences import answering, sentences_of

TUNING = 3
"""The first dialogues, on which rules may be tuned."""
KINDS = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop"}
"""The categories of questions. The fifth has questions without an answer, and is left out."""
_TURNS = re.compile(r"D:?(\d+):0*(\d+)(?: ?- ?D:?\1:0*(\d+))?")
"""A turn of a session, or a range of turns."""
_SESSION = re.compile(r"session_(\d+)")


def dialogue_cases(file: Path) -> Iterator[Case]:
    """Yield the answerable questions of each dialogue; evidence that names no turn is left out.

    Raises:
        DataError: the file is not LoCoMo's.
    """
    try:
        dialogues = json.loads(file.read_bytes())
        for number, dialogue in enumerate(dialogues, 1):
            group = f"{number:02} {dialogue['sample_id']}"
            yield from question_cases(group, dialogue["conversation"], dialogue["qa"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} is no locomo10.json of snap-research/locomo: {error!r}") from error


def is_for_tuning(case: Case) -> bool:
    """Return whether a case of LoCoMo is from a dialogue on which rules may be tuned."""
    return int(case.group[:2]) <= TUNING


def question_cases(
    group: str, conversation: Mapping[str, Any], questions: Sequence[Mapping[str, Any]]
) -> Iterator[Case]:
    """Yield the answerable questions of a dialogue, which is given by its sessions."""
    turns = dict(_turns(conversation))
    places = {name: place for place, name in enumerate(turns)}
    sources = tuple(turns.values())
    for number, question in enumerate(questions):
        named = {
            f"D{found[1]}:{turn}"
            for found in _TURNS.finditer(" ".join(question["evidence"]))
            for turn in range(int(found[2]), int(found[3] or found[2]) + 1)
        }
        places_answering = sorted(places[name] for name in named if name in places)
        if not places_answering or question["category"] not in KINDS:
            continue
        units = tuple(
            frozenset((place, part) for part in range(len(sources[place].parts)))
            for place in places_answering
        )
        yield Case(
            name=f"{group}/{number:03}",
            group=group,
            kind=KINDS[question["category"]],
            query=question["question"],
            sources=sources,
            evidence=frozenset().union(*units),
            newest_first=range(len(sources))[::-1],
            units=units,
            answers=tuple(
                frozenset(
                    (place, part)
                    for part in answering(sources[place], question["question"], str(question["answer"]))
                )
                for place in places_answering
            ),
        )


def _turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, Source]]:
    """Yield the turns in the order of time. The caption of a photo is a sentence of its turn."""
    numbers = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    for number in numbers:
        for turn in conversation[f"session_{number}"]:
            caption = f" [{turn['blip_caption']}]" if "blip_caption" in turn else ""
            text = turn["text"] if "text" in turn else turn["clean_text"]
            parts = sentences_of(f"{turn['speaker']}: {text}{caption}")
            yield turn["dia_id"], Source(turn["dia_id"], parts, joined_by=" ")
