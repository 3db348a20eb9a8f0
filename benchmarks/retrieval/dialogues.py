"""Cases from LoCoMo: questions about long dialogues, and the turns that answer them.

The data are `data/locomo10.json` of the repository snap-research/locomo (CC BY-NC 4.0), given by path.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.retrieval.cases import Case, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.sentences import answering, sentences_of

TUNING = 3
"""The first dialogues, on which rules may be tuned."""
KINDS = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop"}
"""The categories of questions. The fifth has questions without an answer, and is left out."""
_TURN = re.compile(r"D:?(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")


def dialogue_cases(file: Path) -> Iterator[Case]:
    """Yield the answerable questions of each dialogue; evidence that names no turn is left out.

    Raises:
        DataError: the file is not LoCoMo's.
    """
    try:
        dialogues = json.loads(file.read_bytes())
        for number, dialogue in enumerate(dialogues, 1):
            yield from _cases(f"{number:02} {dialogue['sample_id']}", dialogue)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file} is no locomo10.json of snap-research/locomo: {error!r}") from error


def is_for_tuning(case: Case) -> bool:
    """Return whether a case of LoCoMo is from a dialogue on which rules may be tuned."""
    return int(case.group[:2]) <= TUNING


def _cases(group: str, dialogue: Mapping[str, Any]) -> Iterator[Case]:
    turns = dict(_turns(dialogue["conversation"]))
    places = {name: place for place, name in enumerate(turns)}
    sources = tuple(turns.values())
    for number, question in enumerate(dialogue["qa"]):
        named = {f"D{found[1]}:{found[2]}" for found in _TURN.finditer(" ".join(question["evidence"]))}
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
            parts = sentences_of(f"{turn['speaker']}: {turn['text']}{caption}")
            yield turn["dia_id"], Source(turn["dia_id"], parts, joined_by=" ")
