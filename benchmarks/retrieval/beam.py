"""Cases from BEAM: probing questions about long chats with an assistant, and the messages that they name.

The data are the folder `chats/100K` of the repository mohammadtavakoli78/BEAM, given by path. Questions that
the chat does not answer name no message, and are left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.retrieval.cases import Case, Part, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.sentences import answering

_QUESTIONS = "probing_questions/probing_questions.json"
_CHATS = ("chat_trunecated.json", "chat.json")
"""The chat that the questions are about. The first exists if the second is longer than 100,000 tokens."""
_PLAN = re.compile(r"\s*->->[\s\d,N/A]*$")
"""The place of a message in the plan that generated the chat."""


def probing_cases(folder: Path, numbers: Iterable[int]) -> Iterator[Case]:
    """Yield the answerable questions of the chats with these numbers.

    Raises:
        DataError: the folder is not BEAM's.
    """
    for number in numbers:
        chat = folder / str(number)
        try:
            file = next((chat / name for name in _CHATS if (chat / name).exists()), chat / _CHATS[-1])
            messages = dict(_messages(json.loads(file.read_bytes())))
            questions = json.loads((chat / _QUESTIONS).read_bytes())
            yield from _cases(f"chat {number:02}", messages, questions)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{chat} is no chat of mohammadtavakoli78/BEAM: {error!r}") from error


def _messages(batches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Source]]:
    for batch in batches:
        for message in (message for turn in batch["turns"] for message in turn):
            text = _PLAN.sub("", message["content"])
            yield message["id"], Source(str(message["id"]), tuple(f"{message['role']}: {text}".split("\n")))


def _cases(
    group: str, messages: Mapping[int, Source], questions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[Case]:
    sources = tuple(messages.values())
    places = {name: place for place, name in enumerate(messages)}
    numbered = ((kind, *pair) for kind, of_kind in questions.items() for pair in enumerate(of_kind))
    for kind, number, question in numbered:
        named = question.get("source_chat_ids", [])
        units = tuple(
            _lines(place, sources[place]) for place in sorted({places[name] for name in _ids(named)})
        )
        if not units:
            continue
        asked = question["question"]
        stale, answers = frozenset[Part](), frozenset[Part]()
        if kind == "knowledge_update" and named["updated_info"]:
            old, new = ([places[name] for name in named[key]] for key in ("original_info", "updated_info"))
            stale = _answering(old, sources, question["answer"], asked)
            answers = _answering(new, sources, asked, question["answer"])
        yield Case(
            name=f"{group}/{kind} {number}",
            group=group,
            kind=kind.replace("_", " "),
            query=asked,
            sources=sources,
            evidence=frozenset().union(*units),
            newest_first=range(len(sources))[::-1],
            units=units,
            answers=(answers,),
            stale=stale,
        )


def _ids(named: Any) -> list[int]:
    """Return the numbers in nested lists, or in the lists of a mapping."""
    if isinstance(named, int):
        return [named]
    return [
        number for part in (named.values() if isinstance(named, dict) else named) for number in _ids(part)
    ]


def _lines(place: int, source: Source) -> frozenset[Part]:
    return frozenset((place, number) for number, line in enumerate(source.parts) if line.strip())


def _answering(places: Iterable[int], sources: Sequence[Source], asked: str, answer: str) -> frozenset[Part]:
    return frozenset((place, part) for place in places for part in answering(sources[place], asked, answer))
