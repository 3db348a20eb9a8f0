"""All token counters by name: the estimators, and the exact counters, which load on first use.

Importing this module loads no vocabulary.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from apportion.core.text.tokens import ESTIMATORS, CounterName, ModelCounter, TokenCounter
from apportion.engine.counters.bpe import PATTERNS
from apportion.engine.counters.bpe import exact_counter as exact_counter
from apportion.engine.counters.claude.counter import FAMILIES, claude_counter
from apportion.engine.counters.libraries import OPEN_MODELS_LIBRARY, file_counter, open_model_counter

_ESTIMATORS = {counter.name: counter for counter in ESTIMATORS}
_OPEN_MODELS = frozenset(ModelCounter)


class _Counters(Mapping[str, TokenCounter]):
    """A counter for each CounterName, each ModelCounter and each file; another name raises KeyError.

    The iteration leaves out the counters of models if their library is not installed.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Start with the paths of files by the counter's name, such as `file:mine`."""
        self._files = files

    def __getitem__(self, name: str) -> TokenCounter:
        if name in FAMILIES:
            return claude_counter(name)
        if name in _OPEN_MODELS:
            return open_model_counter(name)
        if name in self._files:
            return file_counter(name, self._files[name])
        return exact_counter(name) if name in PATTERNS else _ESTIMATORS[name]

    def __iter__(self) -> Iterator[str]:
        yield from CounterName
        yield from filter(is_installed, ModelCounter)
        yield from self._files

    def __len__(self) -> int:
        return sum(1 for _ in self)


COUNTERS: Mapping[str, TokenCounter] = _Counters(MappingProxyType({}))
"""All counters by name. An exact counter loads when it is first looked up, and stays in memory."""


def counters_with(files: Mapping[str, str | Path]) -> Mapping[str, TokenCounter]:
    """Return all counters, and for each NAME a counter `file:NAME` by the file of a tokenizer.

    A file is read when its counter is first looked up. The lookup raises CounterFileError if the file is no
    tokenizer, or MissingExtraError.
    """
    return _Counters({f"file:{name}": Path(path) for name, path in files.items()})


def is_installed(name: str, counters: Mapping[str, TokenCounter] = COUNTERS) -> bool:
    """Return whether the counter of that name can be loaded here."""
    return find_spec(OPEN_MODELS_LIBRARY) is not None if name in _OPEN_MODELS else name in counters
