"""The commands of the evaluation: `python -m benchmarks.retrieval --help`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.retrieval.cases import (
    Case,
    Measure,
    Method,
    all_answered,
    all_touched,
    all_whole,
    share_found,
)
from benchmarks.retrieval.dialogues import dialogue_cases, is_for_tuning
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.meetings import meeting_cases
from benchmarks.retrieval.methods import FOR_DIALOGUES
from benchmarks.retrieval.results import Result, read_results, write_results
from benchmarks.retrieval.scoring import scored
from benchmarks.retrieval.tables import table

P = ParamSpec("P")

app = typer.Typer(
    help="Measure how much of the evidence for a question stands in the text, by method and limit of tokens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_DIALOGUE_MEASURES: dict[str, Measure] = {
    "whole turns": all_whole,
    "sentences that answer": all_answered,
    "any sentence": all_touched,
}


class Part(StrEnum):
    """The dialogues of LoCoMo that count."""

    TUNING = "tuning"
    TEST = "test"


Limits = Annotated[
    list[int] | None, typer.Option("--limit", min=1, help="Tokens of o200k_base; may be given several times.")
]
Output = Annotated[
    Path | None,
    typer.Option("--results", dir_okay=False, help="Write every result as a line of JSON into this file."),
]
Chosen = Annotated[
    list[str] | None, typer.Option("--method", help="Only this method; may be given several times.")
]


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """Let a command end with exit code 2 and one line if its data cannot be read."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (DataError, OSError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from error

    return wrapped


@app.command()
@reporting
def locomo(
    file: Annotated[Path, typer.Argument(help="data/locomo10.json of snap-research/locomo.")],
    part: Annotated[Part, typer.Option(help="Dialogues 1 to 3, or the others.")] = Part.TEST,
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about long dialogues: is all evidence present?"""
    cases = [case for case in dialogue_cases(file) if is_for_tuning(case) == (part is Part.TUNING)]
    found = _measured(
        "locomo", cases, _selected(FOR_DIALOGUES, method), limit or [2_048], _DIALOGUE_MEASURES, results
    )
    _tell(found)
    _tell([result for result in found if result.kind == "multi-hop"], " (multi-hop)")


@app.command()
@reporting
def qmsum(
    file: Annotated[Path, typer.Argument(help="data/ALL/jsonl/test.jsonl of Yale-LILY/QMSum.")],
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about meetings: the share of the evidence that stands."""
    cases = list(meeting_cases(file))
    measures = {"share of the evidence": share_found}
    _tell(
        _measured(
            "qmsum", cases, _selected(FOR_DIALOGUES, method), limit or [2_048, 4_096], measures, results
        )
    )


@app.command()
@reporting
def tables(file: Annotated[Path, typer.Argument(help="Results, as --results writes them.")]) -> None:
    """Print the tables of results again."""
    _tell(read_results(file))


def _selected(methods: Mapping[str, Method], names: Sequence[str] | None) -> Mapping[str, Method]:
    unknown = [name for name in names or () if name not in methods]
    if unknown:
        raise DataError(f"no method {unknown[0]!r}; there are: {', '.join(methods)}")
    return {name: methods[name] for name in names} if names else methods


def _measured(
    data: str,
    cases: Sequence[Case],
    methods: Mapping[str, Method],
    limits_tokens: Sequence[int],
    measures: Mapping[str, Measure],
    file: Path | None,
) -> list[Result]:
    if not cases:
        raise DataError("the data have no case")
    watched = track(cases, description=data, console=Console(stderr=True))
    found: Iterable[Result] = scored(data, watched, methods, limits_tokens, measures)
    return list(found if file is None else write_results(file, found))


def _tell(results: Sequence[Result], note: str = "") -> None:
    print(f"\n{results[0].data}{note}: {len({result.case for result in results})} cases")
    for measure in results[0].measures:
        print()
        for line in table(results, measure):
            print(line)


if __name__ == "__main__":
    app()
