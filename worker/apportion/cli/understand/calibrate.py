"""`apportion calibrate`: the row of a model, learned from the counts of its provider."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli import CommandError, ExitCode
from apportion.cli._extra import needing_extra
from apportion.cli._files import require_place
from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from apportion.core.models import Model
    from apportion.decisions.analytics.calibration import RowErrors

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("models_file", "policies"))
def calibrate(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    tables: Annotated[Path, typer.Argument(metavar="TABLES", help="A folder of apportion sink.")],
    *,
    model: Annotated[str, typer.Option(metavar="NAME", help="The model, as usage events name it.")],
    quantile: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="The share of requests to cover.")
    ] = 0.99,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The table of models to write.")
    ] = Path("models.toml"),
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write how far the decisions' counts were off, for Prometheus."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Learn how a provider counts, from usage events and the decisions of their requests.

    Fits the fixed tokens of a request, a message and a result, and factors for text and for messages of
    tools. Every fifth event is not learned from; the figures show how the row counts it. The file has the
    row for the setting models_file, and the same tables give the same file. It needs 50 events whose
    decisions were counted by the model's present row. Needs the extras analytics and query. --metrics writes
    gauges for the text files of Prometheus's node exporter, as docs/models.md shows.

    Examples:
      apportion calibrate tables --model claude-opus-4-7
      apportion calibrate tables --model our-model --quantile 0.995 -o models.toml --force
    """
    from apportion.core.errors import EventError
    from apportion.engine.assembly import create_catalogue, create_models

    require_place(output, "--output", force=force)
    settings = read_settings(ctx)
    try:
        table = create_models(settings)
        base = table.row(model, "--model")
    except EventError as error:
        raise CommandError(error.code, f"{model}: {error.message}", ExitCode.USAGE) from None
    with needing_extra("analytics,query"):
        from apportion.decisions.analytics.calibration import calibrate as learn
        from apportion.decisions.analytics.source import is_tables, open_tables
    if not is_tables(tables):
        raise typer.BadParameter(f"{tables} holds no tables of apportion sink", param_hint="TABLES")
    with open_tables([tables]) as opened, progress("reading", None) as advance:
        made = learn(opened, table, base, create_catalogue(settings), quantile, advance)
    version = f"calibrated-{made.newest:%Y-%m-%d}"
    output.write_text(f'version = "{version}"\n\n[[models]]\n{_lines(made.row)}', encoding="utf-8")
    if metrics is not None:
        metrics.write_text(_gauges(made.row.name, made.before), encoding="utf-8")
    for reason, number in sorted(made.skipped.items()):
        typer.echo(f"skipped: {number:,} {reason}")
    for name, fit in (("decisions", made.before), ("learned", made.learned), ("held out", made.held_out)):
        typer.echo(f"{name:<10} {_described(fit)}")
    typer.echo(f"{output}: {made.row.name}, {made.row.source}")


def _described(fit: "RowErrors") -> str:
    middle, high, most = fit.residuals
    return (
        f"{fit.events:,} requests, {fit.under / fit.events:.1%} under, mean margin {fit.margin:.1%}, "
        f"residuals p50 {middle:.1%}, p95 {high:.1%}, max {most:.1%}"
    )


def _gauges(model: str, fit: "RowErrors") -> str:
    """Return gauges in Prometheus's text format: requests, requests under, and the mean excess as a share."""
    gauges = {"requests": fit.events, "under_requests": fit.under, "mean_excess_ratio": f"{fit.margin:.6f}"}
    return "".join(
        f'# TYPE apportion_provider_{name} gauge\napportion_provider_{name}{{model="{model}"}} {value}\n'
        for name, value in gauges.items()
    )


def _lines(row: "Model") -> str:
    from msgspec import to_builtins

    fields = {key: value for key, value in to_builtins(row).items() if value not in (None, 0, "")}
    checked = fields.pop("checked")
    del fields["table"]
    return "".join(f"{key} = {_toml(value)}\n" for key, value in fields.items()) + f"checked = {checked}\n"


def _toml(value: Any) -> str:
    from msgspec import json

    if isinstance(value, Mapping):
        parts = (f"{_toml(key)} = {_toml(part)}" for key, part in value.items() if part is not None)
        return f"{{{', '.join(parts)}}}"
    return json.encode(value).decode()  # texts, numbers and lists of texts are written alike
