"""Cases from REALTALK: questions about chats of two people over weeks, and the messages that answer them.

The data are the folder `data` of the repository danny911kr/REALTALK, given by path. Its form is LoCoMo's.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.dialogues import question_cases
from benchmarks.retrieval.failures import DataError

_FILE = re.compile(r"Chat_(\d+)_\w+\.json")


def chat_cases(folder: Path) -> Iterator[Case]:
    """Yield the answerable questions of each chat; evidence that names no message is left out.

    Raises:
        DataError: the folder has no chat of REALTALK, or another file by its name.
    """
    found = [(int(match[1]), file) for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))]
    if not found:
        raise DataError(f"{folder} is no folder `data` of danny911kr/REALTALK: it has no Chat_1_*.json")
    for number, file in sorted(found):
        try:
            chat = json.loads(file.read_bytes())
            yield from question_cases(f"{number:02} {file.stem}", chat, chat["qa"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file} is no chat of danny911kr/REALTALK: {error!r}") from error
