"""Counters by the tokenizers of libraries in the extra `counters`: open models, and users' own files."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from apportion.core.errors import MissingExtraError
from apportion.core.text.tokens import ModelCounter, TokenCounter

OPEN_MODELS_LIBRARY = "splintr"
_ALIASES: Mapping[str, str] = {ModelCounter.GEMMA3: ModelCounter.GEMMA4}
"""Vocabularies of the library by which counters count, if it is not the vocabulary of their own name.

Gemma 3 and 4 have the same pieces and merges. The library counts three times as fast by those of Gemma 4.
"""
_PROBE = (
    "The quick brown fox's 12345678 tests: don't  \t\n\n  x += \"é\u0301\"; // <|endoftext|></s>\r\n"
    "漢字かな交じり文 한국어 Привет мир हिन्दी ภาษาไทย عربى 👩\u200d👧 \u00a0\u3000▁ \x00\ufeff////====────"
)
"""A text whose tokens depend on how a vocabulary splits texts."""


class CounterFileError(Exception):
    """A refused file of a tokenizer."""

    code = "invalid_counter"
    exit_code = 2


class LibraryCounter:
    """A counter by a library's tokenizer. The text of a special token counts as ordinary text.

    `count` raises UnicodeEncodeError for a lone surrogate, which is no text.
    """

    is_additive = False  # Gemma has pieces that cross seams, and a user's file may have any

    def __init__(self, name: str, digest: str, count: Callable[[str], int]) -> None:
        self.name = name
        self.digest = digest
        self._count = count

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        text.encode()  # some libraries take a lone surrogate for another character
        return self._count(text) if text else 0

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


@cache
def open_model_counter(name: str) -> TokenCounter:
    """Return the counter of an open model. The first call loads its vocabulary, in 0.1 to 1 s.

    Its digest is the SHA-256 of the name, of the tokens of a fixed text, and of the vocabulary's tokens with
    their numbers. So a version of the library that counts the same has the same digest.

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        import splintr  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(OPEN_MODELS_LIBRARY, f"counts by {name}", "counters") from None
    vocabulary = str(_ALIASES.get(name, name))
    tokenizer = splintr.Tokenizer.from_pretrained(vocabulary)
    encode = tokenizer.encode_ordinary
    hashed = hashlib.sha256(f"{name}\n{_PROBE}\n{encode(_PROBE)}\n".encode())
    for number in range(splintr.base_vocab_size(vocabulary)):
        with suppress(ValueError):  # a number without a token
            token = tokenizer.decode_token_bytes(number)
            hashed.update(b"%d:%d:%b" % (number, len(token), token))
    return LibraryCounter(name, f"sha256:{hashed.hexdigest()}", lambda text: len(encode(text)))


@cache
def file_counter(name: str, path: Path) -> TokenCounter:
    """Return the counter by a user's file, whose name ends in `.json` or `.model`.

    Its digest is the SHA-256 of the file. Tokens that the file adds at the ends of a text are not counted.

    Raises:
        CounterFileError: the file cannot be read, or is no tokenizer.
        MissingExtraError: the library that reads it is not installed.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        no_pattern = path.suffix == ".tiktoken"
        reason = "has ranks but no pattern to split texts" if no_pattern else "is not named .json or .model"
        remedy = "name the model's tokenizer.json, or its model of SentencePiece"
        raise CounterFileError(f"{name}: {path} {reason}; {remedy}")
    try:
        data = path.read_bytes()
        return LibraryCounter(name, "sha256:" + hashlib.sha256(data).hexdigest(), reader(data))
    except ImportError as error:
        raise MissingExtraError(str(error.name), f"counts by {name}", "counters") from None
    except OSError as error:
        raise CounterFileError(f"{name}: {path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - the libraries raise bare exceptions for a file that they refuse
        raise CounterFileError(f"{name}: {path} is no tokenizer: {error}") from None


def _read_json(data: bytes) -> Callable[[str], int]:
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    tokenizer: Any = Tokenizer.from_buffer(data)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def _read_model(data: bytes) -> Callable[[str], int]:
    from sentencepiece import SentencePieceProcessor  # noqa: PLC0415 - likewise

    processor: Any = SentencePieceProcessor()
    processor.LoadFromSerializedProto(data)
    return lambda text: len(processor.EncodeAsIds(text))


_READERS = {".json": _read_json, ".model": _read_model}
"""The function that reads each kind of file, by the end of its name."""
