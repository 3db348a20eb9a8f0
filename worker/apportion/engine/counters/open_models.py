"""Counters of open models, by the vocabularies in the library splintr (extra `counters`)."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from apportion.core.errors import MissingExtraError
from apportion.core.text.tokens import ModelCounter, TokenCounter

LIBRARY = "splintr"
_ALIASES: Mapping[str, str] = {ModelCounter.GEMMA3: ModelCounter.GEMMA4}
"""Vocabularies of the library by which counters count, if it is not the vocabulary of their own name.

Gemma 3 and 4 have the same pieces and merges. The library applies the ones of Gemma 4 four times as fast.
"""
_PROBE = (
    "The quick brown fox's 12345678 tests: don't  \t\n\n  x += \"é\u0301\"; // <|endoftext|></s>\r\n"
    "漢字かな交じり文 한국어 Привет мир हिन्दी ภาษาไทย عربى 👩\u200d👧 \u00a0\u3000▁ \x00\ufeff////====────"
)
"""A text whose tokens depend on how a vocabulary splits texts."""


class OpenModelCounter:
    """A counter of the tokens of an open model. The text of a special token counts as ordinary text.

    `digest` is the SHA-256 of the name, of the vocabulary's tokens with their numbers, and of the tokens of a
    fixed text. So a version of the library that counts the same has the same digest. `count` raises
    UnicodeEncodeError for a lone surrogate, which is no text.
    """

    def __init__(self, name: str, tokenizer: Any, size: int) -> None:
        """Start with a tokenizer of the library; `size` leaves out the tokens that the library adds."""
        self.name = name
        self._encode = tokenizer.encode_ordinary
        hashed = hashlib.sha256(f"{name}\n{_PROBE}\n{self._encode(_PROBE)}\n".encode())
        for number in range(size):
            with suppress(ValueError):  # a number without a token
                token = tokenizer.decode_token_bytes(number)
                hashed.update(b"%d:%d:%b" % (number, len(token), token))
        self.digest = f"sha256:{hashed.hexdigest()}"

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        return len(self._encode(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


@cache
def open_model_counter(name: str) -> TokenCounter:
    """Return the counter of that name. The first call loads its vocabulary, in 0.1 to 0.5 s.

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        import splintr  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(LIBRARY, f"counts by {name}", "counters") from None
    vocabulary = str(_ALIASES.get(name, name))
    tokenizer = splintr.Tokenizer.from_pretrained(vocabulary)
    return OpenModelCounter(name, tokenizer, splintr.base_vocab_size(vocabulary))
