"""Flags for settings, made from the settings' model.

Values are parsed by `apportion.settings`, as values of environment variables.
"""

from collections.abc import Mapping
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

if TYPE_CHECKING:
    from apportion.settings import Settings

_GIVEN = "apportion.cli.given"
_OWN_FLAGS = {"default_policy": "--policy", "schema_registry": "--registry"}
"""Flags of commands that override a setting, by the setting's name."""
_PANEL = "Settings (every setting is a flag: see apportion config)"


def with_settings(*shown: str) -> type[TyperCommand]:
    """Return the class of a command with a flag for every setting. Its help shows these settings, or all.

    `@app.command(cls=with_settings("brokers", "app_id"))`, then `read_settings(ctx)` in the command.
    """

    class Command(TyperCommand):
        """Makes its flags when it parses arguments or shows its help, not when it is listed."""

        _explained = False

        def get_params(self, ctx: Any) -> list[Any]:
            return [*super().get_params(ctx), *_make_flags(shown, explained=self._explained)]

        def format_help(self, *arguments: Any) -> None:
            self._explained = True
            super().format_help(*arguments)

        def shell_complete(self, *arguments: Any) -> Any:
            self._explained = True
            return super().shell_complete(*arguments)

    return Command


def read_settings(ctx: typer.Context, **own: Any) -> "Settings":
    """Return the settings of a command that is declared `with_settings`; raise SettingsError.

    `own` are settings from the command's own flags, which override others; None: not given.
    """
    from apportion.settings import load_settings

    given: Mapping[str, Any] = ctx.meta.get(_GIVEN, {})
    flags = {name: value for name, value in given.items() if name != "config"}
    own = {name: value for name, value in own.items() if value is not None}
    named = {name: _OWN_FLAGS[name] for name in own}
    return load_settings(flags | own, given.get("config"), flag_names=named)


def without_kafka(settings: "Settings") -> "Settings":
    """Return the settings with a bound of 16 MiB for events, unless it is set: no topic bounds them."""
    from apportion.settings import DEFAULT

    if settings.origin("event_max_bytes") != DEFAULT:
        return settings
    return settings.model_copy(update={"event_max_bytes": 16 << 20})


@cache
def _make_flags(shown: tuple[str, ...], *, explained: bool) -> list[Any]:
    """Return the flags, made by Typer from a signature; help texts are slow to read: only if `explained`."""
    from apportion.settings import FILE_NAME, NAMES, SECRETS

    def carrier() -> None: ...

    texts = _explanations() if explained else {}
    file = _parameter("config", Path, None, help=f"File of settings, instead of {FILE_NAME} in this folder.")
    flags = [
        _flag(name, texts.get(name, ""), hidden=bool(shown) and name not in shown)
        for name in NAMES
        if name not in SECRETS
    ]
    carrier.__signature__ = Signature([file, *flags])  # type: ignore[attr-defined] # inspect reads it first
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(carrier)
    return get_command(app).params


def _explanations() -> dict[str, str]:
    from rich.markup import escape

    from apportion.settings import help_texts

    return {name: escape(text) for name, text in help_texts().items()}


def _flag(name: str, text: str, *, hidden: bool) -> Parameter:
    from apportion.settings import PATHS, Settings

    field = Settings.model_fields[name]
    kind: Any = Path if name in PATHS else field.annotation
    is_number = kind in (int, float)
    return _parameter(
        name,
        kind if isinstance(kind, type) and not is_number else str,
        ",".join(field.default) if isinstance(field.default, tuple) else field.default,
        help=text,
        metavar=f"<{kind.__name__}>" if is_number else None,
        hidden=hidden,
    )


def _parameter(name: str, kind: Any, default: Any, **option: Any) -> Parameter:
    flag = typer.Option(callback=_keep, expose_value=False, rich_help_panel=_PANEL, **option)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, flag])


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Store the value of a flag that was given; defaults are only for the help."""
    source = ctx.get_parameter_source(str(param.name))
    if source is not None and source.name == "COMMANDLINE":
        ctx.meta.setdefault(_GIVEN, {})[param.name] = value
