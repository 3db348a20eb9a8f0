"""The commands of the evaluation, a command for each kind of data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.retrieval.beam import probing_cases
from benchmarks.retrieval.cases import (
    Case,
    Measure,
    Method,
    all_answered,
    all_touched,
    all_whole,
    share_found,
    stale_alone,
    units_found,
    units_touched,
)
from benchmarks.retrieval.contextbench import marked_cases
from benchmarks.retrieval.contexteval import contexteval_results
from benchmarks.retrieval.dialogues import dialogue_cases, is_for_tuning
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.meetings import meeting_cases
from benchmarks.retrieval.methods import FOR_CHANGES, FOR_DIALOGUES, missing_libraries
from benchmarks.retrieval.realtalk import chat_cases
from benchmarks.retrieval.repositories import change_cases
from benchmarks.retrieval.results import Result, read_results, write_results
from benchmarks.retrieval.scoring import scored
from benchmarks.retrieval.tables import complete, table

P = ParamSpec("P")

app = typer.Typer(
    help="Measure how much of the evidence for a question stands in the text, by method and limit of tokens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_CHANGE_LIMITS, _DIALOGUE_LIMITS, _MEETING_LIMITS = (2_000, 4_000, 8_000), (2_048,), (1_000, 2_000, 4_000)
_CONTEXTEVAL_LIMITS = (750, 1_000, 2_000)
_DIALOGUE_MEASURES: Mapping[str, Measure] = {
    "whole turns": all_whole,
    "sentences that answer": all_answered,
    "any sentence": all_touched,
}
_CHANGE_MEASURES: Mapping[str, Measure] = {"changed lines": share_found, "changed functions": units_found}
_CHAT_MEASURES: Mapping[str, Measure] = {
    "messages touched": units_touched,
    "whole messages": units_found,
    "stale value alone": stale_alone,
}
_SPAN_MEASURES: Mapping[str, Measure] = {"marked lines": share_found, "marked spans": units_found}


class Dialogues(StrEnum):
    """The dialogues of LoCoMo that count."""

    TUNING = "tuning"
    TEST = "test"


class Chats(StrEnum):
    """The chats of BEAM that count."""

    TUNING = "tuning"
    FIRST = "first"
    KEPT = "kept"


_CHATS = dict(zip(Chats, (range(1, 6), range(1, 11), range(11, 21)), strict=True))
Limits = Annotated[
    list[int] | None,
    typer.Option("--limit", min=1, help="Tokens of o200k_base. Repeat it for several limits."),
]
Output = Annotated[
    Path | None,
    typer.Option("--results", dir_okay=False, help="Write every result as a line of JSON into this file."),
]
Chosen = Annotated[
    list[str] | None, typer.Option("--method", help="Run this method alone. Repeat it for several.")
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
def changes(  # noqa: PLR0913, PLR0917 - options
    repositories: Annotated[list[Path], typer.Argument(help="Clones with their history, bare or not.")],
    most: Annotated[int, typer.Option(min=1, help="Changes of each repository.")] = 60,
    tests: Annotated[bool, typer.Option("--tests", help="Let tests be candidates, too.")] = False,  # noqa: FBT002
    fixes: Annotated[bool, typer.Option("--fixes", help="Count only commits that fix bugs.")] = False,  # noqa: FBT002
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure changes of repositories: from the message to the lines that it changed."""
    missing = missing_libraries()
    for name, library in missing.items():
        typer.echo(f"left out: {name} (pip install {library})", err=True)
    methods = {name: show for name, show in FOR_CHANGES.items() if name not in missing}
    chosen = _selected(methods, method)
    cases = [
        case
        for folder in repositories
        for case in change_cases(folder, most, has_tests=tests, fixes_only=fixes)
    ]
    _tell(_measured("changes", cases, chosen, limit or _CHANGE_LIMITS, _CHANGE_MEASURES, results))


@app.command()
@reporting
def contextbench(
    file: Annotated[Path, typer.Argument(help="Rows of ContextBench as JSON lines.")],
    clones: Annotated[Path, typer.Argument(help="Folder of clones, each named like its repository.")],
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure issues of repositories: the share of the spans that people marked."""
    missing = missing_libraries()
    chosen = _selected({name: show for name, show in FOR_CHANGES.items() if name not in missing}, method)
    cases = list(marked_cases(file, clones))
    _tell(_measured("contextbench", cases, chosen, limit or _CHANGE_LIMITS, _SPAN_MEASURES, results))


@app.command()
@reporting
def locomo(
    file: Annotated[Path, typer.Argument(help="data/locomo10.json of snap-research/locomo.")],
    part: Annotated[Dialogues, typer.Option(help="Dialogues 1 to 3, or the others.")] = Dialogues.TEST,
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about long dialogues: is all evidence present?"""
    chosen = _selected(FOR_DIALOGUES, method)
    cases = [case for case in dialogue_cases(file) if is_for_tuning(case) == (part is Dialogues.TUNING)]
    _tell(_measured("locomo", cases, chosen, limit or _DIALOGUE_LIMITS, _DIALOGUE_MEASURES, results))


@app.command()
@reporting
def realtalk(
    folder: Annotated[Path, typer.Argument(help="data of danny911kr/REALTALK.")],
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about chats of two people: is all evidence present?"""
    chosen = _selected(FOR_DIALOGUES, method)
    cases = list(chat_cases(folder))
    _tell(_measured("realtalk", cases, chosen, limit or _DIALOGUE_LIMITS, _DIALOGUE_MEASURES, results))


@app.command()
@reporting
def beam(
    folder: Annotated[Path, typer.Argument(help="chats/100K of mohammadtavakoli78/BEAM.")],
    part: Annotated[Chats, typer.Option(help="Chats 1 to 5, 1 to 10, or 11 to 20.")] = Chats.KEPT,
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about chats with an assistant: the share of the messages that they name."""
    chosen = _selected(FOR_DIALOGUES, method)
    cases = list(probing_cases(folder, _CHATS[part]))
    _tell(_measured("beam", cases, chosen, limit or _DIALOGUE_LIMITS, _CHAT_MEASURES, results))


@app.command()
@reporting
def qmsum(
    file: Annotated[Path, typer.Argument(help="data/ALL/jsonl/test.jsonl of Yale-LILY/QMSum.")],
    limit: Limits = None,
    method: Chosen = None,
    results: Output = None,
) -> None:
    """Measure questions about meetings: the share of the evidence in the text."""
    chosen = _selected(FOR_DIALOGUES, method)
    measures = {"share of the evidence": share_found}
    _tell(_measured("qmsum", list(meeting_cases(file)), chosen, limit or _MEETING_LIMITS, measures, results))


@app.command()
@reporting
def contexteval(
    model: Annotated[
        Path | None,
        typer.Option(help="Folder of a model for sentence-transformers; default: words are hashed."),
    ] = None,
    limit: Limits = None,
    results: Output = None,
) -> None:
    """Measure the benchmark of astromesh-context: the recall of its documents."""
    found = contexteval_results(limit or _CONTEXTEVAL_LIMITS, model)
    _tell(found if results is None else list(write_results(results, found)))


@app.command()
@reporting
def tables(
    file: Annotated[Path, typer.Argument(help="Results, as --results writes them.")],
    plots: Annotated[
        Path | None, typer.Option(help="Write plots into this folder (needs matplotlib).")
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Print tables of each group.")] = False,  # noqa: FBT002
) -> None:
    """Print the tables of results again, and draw them."""
    results = complete(read_results(file))
    if not results:
        raise DataError(f"{file} has no result")
    _tell(results)
    for group in dict.fromkeys(result.group for result in results) if groups else ():
        _tell_tables([result for result in results if result.group == group], group)
    if plots is not None:
        _draw(results, plots)


def _draw(results: Sequence[Result], folder: Path) -> None:
    try:
        from benchmarks.retrieval.plots import write_measures, write_shares  # noqa: PLC0415 - not in tests
    except ImportError as error:
        raise DataError("plots need matplotlib: pip install '.[benchmarks]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{results[0].data}.svg"
    if results[0].data == "locomo":
        write_measures(file, results)
    else:
        write_shares(file, results, next(iter(results[0].measures)))


def _selected(methods: Mapping[str, Method], names: Sequence[str] | None) -> Mapping[str, Method]:
    unknown = [name for name in names or () if name not in methods]
    if unknown:
        raise DataError(f"no method {unknown[0]!r}; there are: {'; '.join(methods)}")
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
        raise DataError("the data have no suitable case")
    watched = track(cases, description=data, console=Console(stderr=True))
    found: Iterable[Result] = scored(data, watched, methods, limits_tokens, measures)
    return list(found if file is None else write_results(file, found))


def _tell(results: Sequence[Result]) -> None:
    """Print a table of each measure, of all cases and then of each kind. Leads are the first method's."""
    _tell_tables(results, results[0].data)
    kinds = list(dict.fromkeys(result.kind for result in results))
    for kind in kinds if len(kinds) > 1 else ():
        _tell_tables([result for result in results if result.kind == kind], kind)


def _tell_tables(results: Sequence[Result], title: str) -> None:
    print(f"\n{title}: {len({result.case for result in results})} cases")
    for measure in dict.fromkeys(name for result in results for name in result.measures):
        print()
        for line in table(results, measure):
            print(line)
