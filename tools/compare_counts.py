"""Comparison of the exact counters with bpe-openai, an engine that shares no code with theirs.

`python -m tools.compare_counts` compares all that ADR 3 lists, but files; those are given by path:
`python -m tools.compare_counts files PATH...`. A difference is printed, and the exit code is then 1.
"""

import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from tools.vocabularies import SURROGATES, tokens_of

from apportion.core.text.tokens import CounterName
from apportion.engine.counters import exact_counter

ENCODINGS = (CounterName.O200K_BASE, CounterName.CL100K_BASE)
ASCII = "strevmldbA1 \t\n\r'/!"
"""A representative of each class of ASCII characters that a pattern distinguishes, and each letter of a
contraction."""
OTHERS = "STREVMLD\u017féÉ中ʰǅ\u0301\u0663\u00a0\u2028—\U0001f600\u1c89\u088f\x00"
"""Capitals of contractions, the long s, and a representative of each class beyond ASCII.

U+1C89 is a letter since Unicode 16, U+088F since Unicode 17.
"""
CONTEXTS = (
    "{0}",
    "a{0}",
    "{0}a",
    "A{0}b",
    " {0}",
    "{0} ",
    "1{0}1",
    "!{0}!",
    "\n{0}\n",
    "'{0}",
    "{0}'s",
    "é{0}中",
    "{0}{0}",
    "{0}{0}{0}{0}",
    " {0}{0} a",
    "\t{0}'t",
    "/{0}\r\n",
    "a'{0}b",
)
PAIRED = 5_000
"""The number of vocabulary entries of which all ordered pairs are compared."""
MIXTURES = 300
_BATCH = 20_000
_RUN = 1 << 20
_LONGEST_FILE = 1 << 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def reference(encoding: str) -> Any:
    """Return bpe-openai's tokenizer of an encoding, from its module alone: its package parses rank files."""
    package = find_spec("bpe_openai")
    places = package.submodule_search_locations if package else ()
    spec = PathFinder.find_spec("bpe_openai._bindings", places)
    assert spec is not None
    assert spec.loader is not None
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension.tokenizer_for_encoding(encoding)


def differences(encoding: str, texts: Iterable[str]) -> Iterator[str | None]:
    """Yield for each text None, or the text if the two engines count it differently."""
    ours, theirs = exact_counter(encoding).count_many, reference(encoding).count
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        expected = [*map(theirs, batch)]
        if ours(batch) == expected:
            yield from [None] * len(batch)
        else:
            pairs = zip(batch, ours(batch), expected, strict=True)
            yield from (None if own == other else text for text, own, other in pairs)


def strings(alphabet: str, length_max: int) -> Iterator[str]:
    """Yield all strings over an alphabet, up to a length."""
    for length in range(1, length_max + 1):
        endings = ["".join(ending) for ending in product(alphabet, repeat=min(3, length))]
        for beginning in product(alphabet, repeat=length - min(3, length)):
            head = "".join(beginning)
            yield from [head + ending for ending in endings]


def vocabulary(encoding: str, paired: int) -> Iterator[str]:
    """Yield each token that is text, and all ordered pairs of a sample of them."""
    tokens = [token.decode() for token in tokens_of(encoding) if _is_text(token)]
    yield from tokens
    sample = Random(encoding).sample(tokens, paired)  # noqa: S311 - the same sample in every run
    for first in sample:
        yield from [first + second for second in sample]


def code_points() -> Iterator[str]:
    """Yield each code point but surrogates in each context."""
    for number in range(sys.maxunicode + 1):
        if number not in SURROGATES:
            yield from [context.format(chr(number)) for context in CONTEXTS]


def runs(length: int, mixtures: int) -> Iterator[str]:
    """Yield a run of each ASCII character, and mixtures of runs, each of up to a number of characters."""
    for number in range(128):
        yield chr(number) * length
    random = Random(length)  # noqa: S311 - the same texts in every run
    for _ in range(mixtures):
        signs = random.choices(ASCII + OTHERS + "-=*#", k=random.randint(1, 6))
        longest = random.choice((2, 70, 900, length))
        parts: list[str] = []
        size = 0
        while size < length:
            parts.append(random.choice(signs) * random.randint(1, longest))
            size += len(parts[-1])
        yield "".join(parts)[:length]


def files(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the text of all UTF-8 files in folders, in parts of at most 1 MiB."""
    for path in paths:
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.is_symlink() and _is_text(data := file.read_bytes()):
                text = data.decode()
                yield from (text[at : at + _LONGEST_FILE] for at in range(0, len(text), _LONGEST_FILE))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data[:8_000]


@app.callback(invoke_without_command=True)
def compare_all(
    context: typer.Context,
    length: Annotated[int, typer.Option(min=1, help="Of the strings over ASCII's classes.")] = 7,
    length_of_all: Annotated[int, typer.Option(min=1, help="Of the strings over all classes.")] = 4,
) -> None:
    """Compare strings, vocabularies, code points and runs."""
    if context.invoked_subcommand:
        return
    found = [
        _compare(name, encoding, texts)
        for encoding in ENCODINGS
        for name, texts in (
            (f"strings of ASCII to {length}", strings(ASCII, length)),
            (f"strings of all classes to {length_of_all}", strings(ASCII + OTHERS, length_of_all)),
            ("vocabulary and pairs", vocabulary(encoding, PAIRED)),
            ("code points", code_points()),
            ("runs and mixtures", runs(_RUN, MIXTURES)),
        )
    ]
    raise typer.Exit(any(found))


@app.command("files")
def compare_files(
    paths: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Folders of files.")],
) -> None:
    """Compare the text files in folders."""
    found = [_compare("files", encoding, files(paths)) for encoding in ENCODINGS]
    raise typer.Exit(any(found))


def _compare(name: str, encoding: str, texts: Iterable[str]) -> int:
    """Print the number of texts, of characters and of differences, and return the last."""
    characters = compared = different = 0

    def measured() -> Iterator[str]:
        nonlocal characters
        for text in texts:
            characters += len(text)
            yield text

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("")
        for text in differences(encoding, measured()):
            compared += 1
            if text is not None:
                different += 1
                progress.print(f"{encoding}: {text[:200]!r}", markup=False)
            if compared % _BATCH == 0:
                progress.update(
                    task, description=f"{encoding}, {name}: {compared:,} texts, {characters:,} characters"
                )
    typer.echo(
        f"{encoding}, {name}: {compared:,} texts, {characters:,} characters, {different:,} differences"
    )
    return different


if __name__ == "__main__":
    app()
