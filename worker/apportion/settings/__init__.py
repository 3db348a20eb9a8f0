"""The settings: the only reader of the environment and of `apportion.toml`.

Decides what each setting is called, which values it may have and which source wins: flag, environment,
file, default. Never connects, never logs, never shows a secret. Importing it reads nothing.
"""

import ast
import difflib
import inspect
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from stat import S_IMODE
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from apportion.core.bounds import Bounds
from apportion.core.memory import COMPOSITIONS_MAX_BYTES
from apportion.core.results import DeadLetterValue, Detail
from apportion.settings.cluster import ClusterSettings
from apportion.settings.value_types import (
    Fraction,
    LogFormat,
    OptionalFingerprintSecret,
    OptionalPath,
    OptionalSecret,
    OptionalText,
    Positive,
    Seconds,
)

FILE_NAME = "apportion.toml"
PREFIX = "APPORTION_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
"""Names the file of settings; no setting itself, for a file cannot say where it is."""
DEFAULT = "default"
"""The origin of a value that nobody set."""

_SERVICE_LINK = re.compile(
    r"APPORTION_(?:PORT=|(?:\w+_)?(?:SERVICE_HOST=|SERVICE_PORT(?:_\w+)?=|PORT=(?:tcp|udp|sctp)://"
    r"|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?=))"
)
"""What Kubernetes sets in every pod beside a service `apportion` or `apportion-…`: no settings, no errors."""

_BOUNDS = Bounds()


class SettingsError(Exception):
    """The settings are wrong; holds every problem found, each naming its key and its place."""

    code = "invalid_settings"
    exit_code = 2

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Settings(ClusterSettings):
    """Every setting of Apportion; a docstring under a name is its help text.

    Built directly it reads nothing: `load_settings` gathers what the user set.
    """

    default_policy: Annotated[str, Field(min_length=1)] = "lanes"
    """Policy of requests that name none."""
    policies: OptionalPath = None
    """Folder of policy files, beside the built-in ones."""
    policy_settle_s: Seconds = 60.0
    """From when a published policy, or its removal, counts: for events recorded so long after it, in seconds;
    the same in all workers."""
    fingerprint_secret_file: OptionalPath = None
    """File with the secret that turns paths into ids: a text file with one for all tenants, or a .toml
    file with a table tenants (NAME = "secret") and an optional default."""
    fingerprint_secret: OptionalFingerprintSecret = None
    """The secret itself, for all tenants, instead of the file; from the environment or the settings file."""

    compositions_max_bytes: Annotated[int, Field(ge=0)] = COMPOSITIONS_MAX_BYTES
    """How much of past compositions a worker remembers, under all policies, in estimated bytes; 0: none."""
    verify_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of decisions that a worker composes again beside the stream, to tell differences; 0: none."""
    dead_letter_share_max: Fraction = 0.5
    """The worker stops when a greater share of the last events were dead letters, in all and of most tenants,
    instead of emptying the input into the dead letter topic; 1: never."""
    dead_letter_window: Positive = 200
    """Over how many of the last events that share is taken in all; a tenant's, over its last 20 at most."""
    event_failures_max: Annotated[int, Field(ge=0)] = 0
    """How many workers one event may end, by an error of their own or killed by memory or a signal, until it
    is set aside as a dead letter (event_failed); 0: it never is, and workers end there until one that can
    answer it starts."""
    dead_letter_value: Annotated[DeadLetterValue, Field(strict=False)] = DeadLetterValue.FULL
    """What a dead letter holds of the event that was refused: full, all of it up to 1 MiB, to be read and
    sent again, and the first 256 KiB of a larger value; digest, only the digest and size of its value, and no
    headers."""
    event_max_bytes: Annotated[int, Field(ge=1, le=4 << 20)] = _BOUNDS.event_max_bytes
    """Largest event, in bytes; a larger one is a dead letter, as are all below that pass a bound."""
    candidates_max: Positive = _BOUNDS.candidates_max
    """Most candidates in a request."""
    messages_max: Positive = _BOUNDS.messages_max
    """Most messages in a conversation."""
    constraints_max: Positive = _BOUNDS.constraints_max
    """Most constraints in a request."""
    id_max_characters: Positive = _BOUNDS.id_max_characters
    """Longest id, in characters."""
    name_max_characters: Positive = _BOUNDS.name_max_characters
    """Longest name, in characters."""
    tag_max_characters: Positive = _BOUNDS.tag_max_characters
    """Longest tag, in characters."""
    tags_max: Positive = _BOUNDS.tags_max
    """Most tags of a candidate."""
    nesting_max: Positive = _BOUNDS.nesting_max
    """Deepest nesting of an event's JSON."""
    decision_omitted_max: Annotated[int, Field(ge=0)] = 1000
    """Omitted candidates that a decision lists one by one; beyond it they are counted by reason, but
    for what has expired and leaves the pool."""
    decision_detail: Annotated[Detail, Field(strict=False)] = Detail.FULL
    """How much of a decision is stored: full; selected, without the candidates that were omitted;
    summary, without any."""

    log_format: Annotated[LogFormat, Field(strict=False)] = LogFormat.TEXT
    """How a worker writes its log, a line a fact: text (key=value) or json."""
    tables: OptionalText = None
    """Where sink writes its tables: a folder, or a URL (s3://bucket/prefix, gs://…, az://…) whose credentials
    and endpoint stand where its own tools look for them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)."""
    sink_roll_bytes: Positive = 64 << 20
    """A batch of a partition's records is written when its files have so many bytes."""
    sink_roll_s: Seconds = 300.0
    """It is written at the latest when its first record was read so many seconds ago."""
    sink_memory_bytes: Positive = 512 << 20
    """When the batches of all partitions hold so many bytes, the largest is written."""
    health_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address at which a worker tells its health and its metrics; 0.0.0.0: to other machines, too."""
    health_port: Annotated[int, Field(ge=0, le=65535)] = 9464
    """Port of /livez, /readyz and /metrics; 0: they are not served. A second worker on a machine needs
    another: unless one is set, a worker whose port is taken goes on without."""
    metrics_by_tenant: Annotated[int, Field(ge=0, le=10_000)] = 0
    """How many tenants the metrics tell apart by name, those that come first; 0: none is named."""
    tracing: bool = False
    """Make a span of each batch by OpenTelemetry's API, which the extra otel brings; an SDK that records and
    exports them is yours to set up."""

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, *, _origins: Mapping[str, str] = MappingProxyType({}), **values: Any) -> None:
        super().__init__(**values)
        self._origins = dict(_origins)

    def origin(self, name: str) -> str:
        """Return where a setting's value came from: a flag, a variable, a file's path or `default`."""
        return self._origins.get(name, DEFAULT)

    @property
    def bounds(self) -> Bounds:
        """The bounds of an event, as the core takes them."""
        return Bounds(**{name: getattr(self, name) for name in Bounds.__struct_fields__})

    @field_validator("fingerprint_secret")
    @classmethod
    def _comes_from_one_place(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret and info.data.get("fingerprint_secret_file"):
            raise PydanticCustomError("secret", "is given beside fingerprint_secret_file: set one of them")
        return secret


NAMES = tuple(Settings.model_fields)
SECRETS = frozenset(
    name
    for name, field in Settings.model_fields.items()
    if field.annotation in (OptionalSecret, OptionalFingerprintSecret)
)
"""They have no flag, for every user of a machine sees its processes' flags."""
PATHS = frozenset(name for name, field in Settings.model_fields.items() if field.annotation == OptionalPath)


def load_settings(
    flags: Mapping[str, Any] = MappingProxyType({}),
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Gather the settings: flags over environment over file over defaults.

    Flags and variables are parsed, the file's values keep their types. An empty variable counts as
    unset, and so does what Kubernetes sets for a service of our name. A path in the file is relative to
    the file's folder.

    Args:
        flags: what was given on the command line, by the setting's name.
        config: the file; by default APPORTION_CONFIG, else `apportion.toml` where there is one.
        environment: variables, of which those named APPORTION_… are ours.

    Raises:
        SettingsError: with every problem of every source.
    """
    chosen = config or environment.get(CONFIG_VARIABLE)
    path = Path(chosen or FILE_NAME)
    problems: list[str] = []
    of_file: dict[str, Any] = {}
    if chosen or path.exists():
        try:
            of_file = _with_paths_from(path.parent, read_toml(path))
        except SettingsError as error:
            problems += error.problems
    variables = {
        variable.removeprefix(PREFIX).lower(): variable
        for variable, text in environment.items()
        if variable.startswith(PREFIX) and variable != CONFIG_VARIABLE and text
        if not _SERVICE_LINK.match(f"{variable}={text}")
    }
    texts = {name: environment[variable] for name, variable in variables.items()} | dict(flags)
    origins = dict.fromkeys(of_file, str(path)) | variables | {name: flag_of(name) for name in flags}
    problems += [_unknown(name, origin) for name, origin in origins.items() if name not in NAMES]
    values = {name: value for name, value in (of_file | _parsed(texts)).items() if name in NAMES}
    return _validated(values, origins, problems)


@cache
def help_texts() -> dict[str, str]:
    """Return what stands under each setting's name, read from the sources: only who asks for help waits."""
    texts: dict[str, str] = {}
    for model in (ClusterSettings, Settings):
        (definition,) = ast.parse(inspect.getsource(model)).body
        assert isinstance(definition, ast.ClassDef), "a class's source is its definition"
        for field, said in pairwise(definition.body):
            match field, said:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def environment_without_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a command that we run: all variables but those that hold our secrets."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(PREFIX) and name.removeprefix(PREFIX).lower() in SECRETS)
    }


def flag_of(name: str) -> str:
    """Return the flag of a setting, `--app-id`."""
    return "--" + name.replace("_", "-")


def read_text(path: Path) -> str:
    """Return a file's text.

    Raises:
        SettingsError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}{_whose(path, error)}"]) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{path}: is not UTF-8"]) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return a file's keys; what is wrong with it is told by its line alone, for it may hold a secret.

    Raises:
        SettingsError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: is not valid TOML ({str(error).rpartition('(')[2]}"]) from None


def _whose(path: Path, error: OSError) -> str:
    """Return what to do about a file that is there and is not ours to read, as one of a container's host."""
    try:
        status = path.stat()
    except OSError:  # nor is its folder
        return ""
    if not isinstance(error, PermissionError):
        return ""
    return (
        f": its owner is {status.st_uid}:{status.st_gid}, its mode {S_IMODE(status.st_mode):04o}, and we are "
        f"{os.geteuid()}:{os.getegid()}: let this user read it"
    )


def _with_paths_from(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(folder / value) if name in PATHS and isinstance(value, str) else value
        for name, value in values.items()
    }


def _parsed(texts: dict[str, Any]) -> dict[str, Any]:
    """Read what came as text as the type of its setting; what cannot be read stays, and is found wrong."""
    parsed = dict(texts)
    for name, field in Settings.model_fields.items():
        if name in texts:
            kind: Any = field.annotation
            with suppress(ValidationError):
                parsed[name] = TypeAdapter(kind).validate_python(texts[name])
    return parsed


def _validated(values: dict[str, Any], origins: dict[str, str], problems: list[str]) -> Settings:
    try:
        settings = Settings(_origins=origins, **values)
    except ValidationError as error:
        raise SettingsError([*problems, *(_wrong(detail, origins) for detail in error.errors())]) from None
    if problems:
        raise SettingsError(problems)
    return settings


def _wrong(detail: ErrorDetails, origins: Mapping[str, str]) -> str:
    name = str(detail["loc"][0])
    got = "" if name in SECRETS or detail["input"] is None else f", got {detail['input']!r}"
    return f"{name} ({origins.get(name, DEFAULT)}): {detail['msg']}{got}"


def _unknown(name: str, origin: str) -> str:
    near = difflib.get_close_matches(name, NAMES)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `apportion config`"
    return f"{name} ({origin}): no such setting; {hint}"
