"""The exact BPE counters, `o200k_base` and `cl100k_base`, with the vocabularies inside an installed wheel.

The text is split by the encoding's pattern, and each piece is merged by its ranks. The text of a special
token (`<|endoftext|>`) counts as ordinary text. Nothing is downloaded, and no thread is started.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.counters.runs import RunCounter

_PACKAGE = "bpe_openai"
_EXTENSION = f"{_PACKAGE}._bindings"

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
"""Digests as constants: the extension has its vocabularies compiled in, and does not count with the rank
files beside it. The tests derive the digests from the published files, and compare the counts."""


class ExactCounter:
    """A counter of the tokens that an encoding gives.

    `digest` is the SHA-256 of three parts, in UTF-8, joined by newlines: the pattern, the Unicode version,
    and the rank file as OpenAI publishes it (by rank, a line `base64(token) rank` for each token).
    `count` raises UnicodeEncodeError for a lone surrogate, which is no text.
    """

    __slots__ = ("count", "digest", "name")

    def __init__(self, name: str, digest: str, count: Callable[[str], int]) -> None:
        self.name = name
        self.digest = digest
        self.count = count

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


@cache
def exact_counter(name: str) -> TokenCounter:
    """Return the exact counter of that name. The first call loads its vocabulary, in 25 to 100 ms.

    Raises:
        KeyError: no encoding has that name.
        ImportError: the wheel that carries the vocabularies is not installed.
    """
    digest = _DIGESTS[name]
    return ExactCounter(name, digest, RunCounter(_extension().tokenizer_for_encoding(name)).count)


@cache
def _extension() -> ModuleType:
    """Load the extension module without its package: importing that parses every rank file (0.4 s, 67 MB)."""
    package = find_spec(_PACKAGE)
    places = package.submodule_search_locations if package else ()
    spec = PathFinder.find_spec(_EXTENSION, places)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_EXTENSION} is missing: install bpe-openai for this platform", name=_EXTENSION)
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension
