"""Counters of users, each by the file of a tokenizer: `tokenizer.json`, or a model of SentencePiece."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from apportion.core.errors import MissingExtraError
from apportion.core.text.tokens import TokenCounter


class CounterFileError(Exception):
    """A refused file of a tokenizer."""

    code = "invalid_counter"
    exit_code = 2


class FileCounter:
    """A counter by a tokenizer's file. The text of a special token counts as ordinary text.

    `digest` is the SHA-256 of the file. Tokens that the file adds at the ends of a text are not counted. `count` raises UnicodeEncodeError for a lone surrogate, which is no text.
    """

    def __init__(self, name: str, digest: str, count: Callable[[str], int]) -> None:
        self.name = name
        self.digest = digest
        self._count = count

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        text.encode()  # the libraries treat a lone surrogate in different ways
        return self._count(text) if text else 0

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


def load_file_counter(name: str, path: Path) -> TokenCounter:
    """Return the counter by a file; its name ends in `.json` or `.model`.

    Raises:
        CounterFileError: the file cannot be read, or is no tokenizer.
        MissingExtraError: the library that reads it is not installed.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        reason = (
            "has ranks and no pattern, so that texts cannot be split" if path.suffix == ".tiktoken" else ""
        )
        reason = reason or "is not named .json or .model"
        remedy = "name the model's tokenizer.json, or its model of SentencePiece"
        raise CounterFileError(f"{name}: {path} {reason}; {remedy}")
    try:
        data = path.read_bytes()
        count = reader(data)
    except ImportError as error:
        raise MissingExtraError(str(error.name), f"counts by {name}", "counters") from None
    except OSError as error:
        raise CounterFileError(f"{name}: {path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - the libraries raise bare exceptions for a file that they refuse
        raise CounterFileError(f"{name}: {path} is no tokenizer: {error}") from None
    return FileCounter(name, "sha256:" + hashlib.sha256(data).hexdigest(), count)


def _read_json(data: bytes) -> Callable[[str], int]:
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    tokenizer = Tokenizer.from_buffer(data)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _read_model(data: bytes) -> Callable[[str], int]:
    from sentencepiece import SentencePieceProcessor  # noqa: PLC0415 - likewise

    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(data)
    return lambda text: len(processor.EncodeAsIds(text))


_READERS = {".json": _read_json, ".model": _read_model}
"""The function that reads each kind of file, by the end of its name."""
