"""The exact BPE counters, `o200k_base` and `cl100k_base`.

The text is split by the encoding's pattern, and each piece is merged by its ranks. The text of a special
token (`<|endoftext|>`) counts as ordinary text. Nothing is downloaded, and no thread is started.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.engine.counters.long_s import LONG_S, taken_apart
from apportion.engine.counters.runs import RunCounter, Tokenizer

_EXTENSION = "toktok._toktok"
"""The module of toktok-rs that takes a folder of vocabularies. It is private, so the pin is exact."""
VOCABULARIES = Path(__file__).with_name("vocabularies")
"""The folder of the ranks and character classes of both encodings, made by `tools.vocabularies`."""
CLASSES = VOCABULARIES / "uniclass_o200k.bin"
"""The file of the character classes."""

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_ALTERNATIVES = {
    CounterName.O200K_BASE: (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ),
    CounterName.CL100K_BASE: (
        "'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
        r"\p{N}{1,3}+",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
        r"\s++$",
        r"\s*[\r\n]",
        r"\s+(?!\S)",
        r"\s",
    ),
}

PATTERNS: Mapping[str, str] = {name: "|".join(parts) for name, parts in _ALTERNATIVES.items()}
"""The pattern by which each encoding splits a text, as in tiktoken 0.14.0 (`tiktoken_ext`)."""

UNICODE_VERSION = "16.0.0"
"""The version of the character classes in the patterns; another one counts newly assigned characters
differently."""

_DIGESTS: Mapping[str, str] = {
    CounterName.O200K_BASE: "sha256:001d14a90d51f68f9c24b892f5be5a83f68b2bad14bfe549d363324da519370b",
    CounterName.CL100K_BASE: "sha256:b8c43b21d44581602206fcce9ef6be6f2644089d625ce7c2f356404acd2f1588",
}
"""The tests derive these digests from the published rank files, and the files in VOCABULARIES as well."""


class ExactCounter:
    """A counter of the tokens that an encoding gives.

    `digest` is the SHA-256 of three parts, in UTF-8, joined by newlines: the pattern, the Unicode version,
    and the rank file as OpenAI publishes it (by rank, a line `base64(token) rank` for each token).
    `count` raises UnicodeEncodeError for a lone surrogate, which is no text.
    """

    def __init__(self, name: str, digest: str, tokenizer: Tokenizer) -> None:
        self.name = name
        self.digest = digest
        self._pattern = PATTERNS[name]
        self._runs = RunCounter(tokenizer)
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        if LONG_S not in text:
            return self._runs.count(text)
        pieces, contractions, merging = taken_apart(text, self._pattern, CLASSES)
        tokens = sum(map(self._runs.count, pieces))
        return tokens + contractions * self._tokenizer.count(LONG_S) - merging

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        # The tokenizer's `count_batch` takes 33 µs more a call, as much as counting 100 short texts.
        return [*map(self.count, texts)]


@cache
def exact_counter(name: str) -> TokenCounter:
    """Return the exact counter of that name. The first call loads its vocabulary, in 60 to 180 ms.

    Raises:
        KeyError: no encoding has that name.
        ImportError: the package of the tokenizer is not installed.
    """
    return ExactCounter(name, _DIGESTS[name], load_tokenizer(name))


@cache
def load_tokenizer(encoding: str) -> Tokenizer:
    """Return the tokenizer of an encoding, loaded once.

    It remembers pieces of text by thread, in at most 16 MiB. More than two tokenizers in a thread would
    evict each other's pieces.

    Raises:
        ImportError: the package of the tokenizer is not installed.
    """
    try:
        extension = import_module(_EXTENSION)
    except ImportError as error:
        raise ImportError(f"{error}: install toktok-rs for this platform", name=error.name) from None
    tokenizer: Tokenizer = extension.Tokenizer(encoding, str(VOCABULARIES))
    return tokenizer
