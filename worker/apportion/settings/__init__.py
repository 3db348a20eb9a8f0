"""The settings: their names, types and defaults, and the only reader of the environment and `apportion.toml`.

A flag overrides the environment, the environment overrides the file, the file overrides the default.
Importing this module reads nothing. No secret is ever shown.
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
    CounterFiles,
    Fraction,
    LogFormat,
    OptionalFingerprintSecret,
    OptionalPath,
    OptionalSecret,
    OptionalText,
    Positive,
    ReplyHeaders,
    Seconds,
)

FILE_NAME = "apportion.toml"
PREFIX = "APPORTION_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
"""The variable that names the file of settings. It is not a setting, because a file cannot name itself."""
DEFAULT = "default"
"""The origin of a value that is not set."""

_SERVICE_LINK = re.compile(
    r"APPORTION_(?:PORT=|(?:\w+_)?(?:SERVICE_HOST=|SERVICE_PORT(?:_\w+)?=|PORT=(?:tcp|udp|sctp)://"
    r"|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?=))"
)
"""Variables that Kubernetes sets in pods if a service is named `apportion` or `apportion-…`; they are
ignored."""

_BOUNDS = Bounds()


class SettingsError(Exception):
    """The settings are invalid. `problems` lists all problems, each with its key and its source."""

    code = "invalid_settings"
    exit_code = 2

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Settings(ClusterSettings):
    """All settings of Apportion. The docstring under a name is its help text.

    The constructor reads no source; `load_settings` does.
    """

    default_policy: Annotated[str, Field(min_length=1)] = "lanes"
    """Policy of requests that name no policy."""
    policies: OptionalPath = None
    """Folder of policy files, in addition to the built-in ones."""
    models_file: OptionalPath = None
    """Table of models in TOML, whose rows come before the built-in ones."""
    counters: CounterFiles = ()
    """Counters file:NAME by the files of tokenizers (tokenizer.json, or SentencePiece's .model): NAME=path,
    NAME=path; in the file of settings a table of NAME = "path"."""
    policy_settle_s: Seconds = 60.0
    """Delay until a published policy, or its removal, applies, in seconds: it applies to events that are
    recorded later than this. The same in all workers."""
    fingerprint_secret_file: OptionalPath = None
    """File with the secret that turns paths into ids: a text file with one secret for all tenants, or a .toml
    file with a table tenants (NAME = "secret") and an optional default."""
    fingerprint_secret: OptionalFingerprintSecret = None
    """The secret itself, for all tenants, instead of the file. Set it in the environment or the settings
    file."""

    compositions_max_bytes: Annotated[int, Field(ge=0)] = COMPOSITIONS_MAX_BYTES
    """Size of a worker's cache of compositions, for all policies together, in estimated bytes; 0: no
    cache."""
    verify_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of decisions that a worker composes again in the background, to detect differences; 0: none."""
    dead_letter_share_max: Fraction = 0.5
    """Largest share of dead letters among the last events. The worker stops if the share of all events and of
    most tenants is larger, instead of moving the whole input into the dead letter topic; 1: it never
    stops."""
    dead_letter_window: Positive = 200
    """Number of the last events for that share; for the share of a tenant, its last 20 at most."""
    event_failures_max: Annotated[int, Field(ge=0)] = 0
    """Number of workers that one event may end, by an internal error, for lack of memory or by a signal,
    before it becomes a dead letter (event_failed). 0: it never does, and workers end at it until one starts
    that can answer it."""
    dead_letter_value: Annotated[DeadLetterValue, Field(strict=False)] = DeadLetterValue.FULL
    """Content of the refused event in a dead letter. full: all of it up to 1 MiB, so that it can be read and
    sent again, and the first 256 KiB of a larger value. digest: only the digest and size of its value, and no
    headers."""
    reply_headers: ReplyHeaders = ()
    """Headers of an event that its composed event, decision and dead letter copy, up to 16 of up to 256 bytes
    each: kafka_correlationId for Spring's ReplyingKafkaTemplate. Answers go to their own topics only."""
    event_max_bytes: Annotated[int, Field(ge=1, le=16 << 20)] = _BOUNDS.event_max_bytes
    """Largest event, in bytes. An event that exceeds this or one of the following bounds is a dead letter.
    Topics take events of at most 4 MiB. Larger ones are for commands without Kafka."""
    candidates_max: Positive = _BOUNDS.candidates_max
    """Largest number of candidates in a request."""
    messages_max: Positive = _BOUNDS.messages_max
    """Largest number of messages in a conversation."""
    tools_max: Positive = _BOUNDS.tools_max
    """Largest number of tools in a request."""
    constraints_max: Positive = _BOUNDS.constraints_max
    """Largest number of constraints in a request."""
    id_max_characters: Positive = _BOUNDS.id_max_characters
    """Longest id, in characters."""
    name_max_characters: Positive = _BOUNDS.name_max_characters
    """Longest name, in characters."""
    tag_max_characters: Positive = _BOUNDS.tag_max_characters
    """Longest tag, in characters."""
    tags_max: Positive = _BOUNDS.tags_max
    """Largest number of tags of a candidate."""
    nesting_max: Positive = _BOUNDS.nesting_max
    """Deepest nesting of an event's JSON."""
    query_max_characters: Positive = _BOUNDS.query_max_characters
    """Longest query of a request, in characters."""
    decision_omitted_max: Annotated[int, Field(ge=0)] = 1000
    """Largest number of omitted candidates that a decision lists. Further ones are only counted by reason,
    except artifacts that have expired and leave the pool."""
    decision_detail: Annotated[Detail, Field(strict=False)] = Detail.FULL
    """Detail of stored decisions: full; selected, without the omitted candidates; summary, without any
    candidates."""

    log_format: Annotated[LogFormat, Field(strict=False)] = LogFormat.TEXT
    """Format of a worker's log, with one line per fact: text (key=value) or json."""
    tables: OptionalText = None
    """Place of the tables that sink writes: a folder, or a URL (s3://bucket/prefix, gs://…, az://…).
    Credentials and endpoint come from the usual variables of its tools (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
    …)."""
    sink_roll_bytes: Positive = 64 << 20
    """Size of its files, in bytes, at which sink writes a batch of a partition's records."""
    sink_roll_s: Seconds = 300.0
    """Longest time from reading the first record of a batch until sink writes it, in seconds."""
    sink_memory_bytes: Positive = 512 << 20
    """Size of the batches of all partitions, in bytes, at which sink writes the largest one."""
    health_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address on which a worker serves its health and metrics; 0.0.0.0: all addresses, for other machines."""
    health_port: Annotated[int, Field(ge=0, le=65535)] = 9464
    """Port of /livez, /readyz and /metrics; 0: they are not served. A second worker on a machine needs
    another port. If the port is not set and in use, a worker runs without them."""
    gateway_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address on which a gateway serves HTTP. Without gateway_tokens_file, only addresses of this machine are
    accepted."""
    gateway_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port of a gateway; 0: any free port, which the log names."""
    gateway_tokens_file: OptionalPath = None
    """TOML file with the bearer tokens of a gateway's callers: for each a table with token, tenants and
    optionally policies."""
    gateway_wait_s: Seconds = 30.0
    """Longest time that a gateway waits for an answer, in seconds; a call can ask for less (Prefer: wait=…).
    The same time limits the reading of a call's body."""
    gateway_in_flight_max: Positive = 256
    """Largest number of calls that a gateway handles at once; further calls are refused (429). One token has
    half of them at most."""
    gateway_bodies_max_bytes: Annotated[int, Field(ge=8 << 20)] = 64 << 20
    """Largest size of the bodies of all calls that a gateway reads and handles at once, in bytes; further
    calls are refused (429). One token has half of it at most."""
    gateway_fit_max_bytes: Positive = 32 << 20
    """Largest body of a call of /v1/fit, in bytes; a larger one is refused (413). gateway_bodies_max_bytes
    bounds it, too. The events that the gateway makes of it are bound by event_max_bytes."""
    metrics_by_tenant: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of tenants, the first ones, that the metrics name; all others are other. 0: no metrics by
    tenant."""
    tracing: bool = False
    """Create a span for each batch of a worker, and for each call of a gateway, with OpenTelemetry's API
    (extra otel). You set up an SDK that records and exports the spans."""

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, *, _origins: Mapping[str, str] = MappingProxyType({}), **values: Any) -> None:
        super().__init__(**values)
        self._origins = dict(_origins)

    def origin(self, name: str) -> str:
        """Return the source of a setting's value: a flag, a variable, a file's path or `default`."""
        return self._origins.get(name, DEFAULT)

    @property
    def counter_files(self) -> dict[str, str]:
        """The path of each counter's file, by NAME."""
        return dict(named.split("=", 1) for named in self.counters)

    @property
    def bounds(self) -> Bounds:
        """The bounds of an event, for the core."""
        return Bounds(**{name: getattr(self, name) for name in Bounds.__struct_fields__})

    @field_validator("fingerprint_secret")
    @classmethod
    def _comes_from_one_place(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret and info.data.get("fingerprint_secret_file"):
            raise PydanticCustomError(
                "secret", "is set together with fingerprint_secret_file: set one of them"
            )
        return secret


NAMES = tuple(Settings.model_fields)
SECRETS = frozenset(
    name
    for name, field in Settings.model_fields.items()
    if field.annotation in (OptionalSecret, OptionalFingerprintSecret)
)
"""Secret settings. They have no flag, because every user of a machine can see the flags of processes."""
PATHS = frozenset(name for name, field in Settings.model_fields.items() if field.annotation == OptionalPath)


def load_settings(
    flags: Mapping[str, Any] = MappingProxyType({}),
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    flag_names: Mapping[str, str] = MappingProxyType({}),
) -> Settings:
    """Return the settings: flags override the environment, then the file, then the defaults.

    Flags and variables are parsed; the file's values keep their types. An empty variable counts as unset. So
    do the variables that Kubernetes sets for services named `apportion` or `apportion-…`. A path in the
    file is relative to the file's folder.

    Args:
        flags: values of the command line, by the setting's name.
        config: the file; by default APPORTION_CONFIG, else `apportion.toml` if it exists.
        environment: variables; those named APPORTION_… are settings.
        flag_names: by setting, the name of its flag if it differs from `flag_of`.

    Raises:
        SettingsError: settings are invalid. The error lists all problems of all sources.
    """
    chosen = config or environment.get(CONFIG_VARIABLE)
    path = Path(chosen or FILE_NAME)
    problems: list[str] = []
    file_values: dict[str, Any] = {}
    if chosen or path.exists():
        try:
            file_values = _with_paths_from(path.parent, read_toml(path))
        except SettingsError as error:
            problems += error.problems
    variables = _variables(environment)
    texts = {name: environment[variable] for name, variable in variables.items()} | dict(flags)
    given = {name: flag_names.get(name, flag_of(name)) for name in flags}
    origins = dict.fromkeys(file_values, str(path)) | variables | given
    problems += [_unknown(name, origin) for name, origin in origins.items() if name not in NAMES]
    values = {name: value for name, value in (file_values | _parsed(texts)).items() if name in NAMES}
    return _validated(values, origins, problems)


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the variables that are settings, by the setting's name."""
    return {
        variable.removeprefix(PREFIX).lower(): variable
        for variable, text in environment.items()
        if variable.startswith(PREFIX) and variable != CONFIG_VARIABLE and text
        if not _SERVICE_LINK.match(f"{variable}={text}")
    }


@cache
def help_texts() -> dict[str, str]:
    """Return the help text of each setting, read from the source code, which is slow."""
    texts: dict[str, str] = {}
    for model in (ClusterSettings, Settings):
        (definition,) = ast.parse(inspect.getsource(model)).body
        assert isinstance(definition, ast.ClassDef), "a class's source is its definition"
        for field, below in pairwise(definition.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def environment_without_secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a child process: all variables except those with our secrets."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(PREFIX) and name.removeprefix(PREFIX).lower() in SECRETS)
    }


def flag_of(name: str) -> str:
    """Return the flag of a setting, such as `--app-id`."""
    return "--" + name.replace("_", "-")


def read_text(path: Path) -> str:
    """Return a file's text; raise SettingsError if it is unreadable or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}{_owner_hint(path, error)}"]) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{path}: is not UTF-8"]) from None


def read_secret(name: str, path: Path | None) -> str | None:
    """Return the stripped text of a setting's file; None without a path. An empty file is a SettingsError."""
    if path is None:
        return None
    secret = read_text(path).strip()
    if not secret:
        raise SettingsError([f"{name} ({path}): is empty"])
    return secret


def read_toml(path: Path) -> dict[str, Any]:
    """Return the keys of a TOML file; raise SettingsError if it is unreadable or not TOML."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:  # only its line is shown, because the file can hold a secret
        raise SettingsError([f"{path}: is not valid TOML ({str(error).rpartition('(')[2]}"]) from None


def _owner_hint(path: Path, error: OSError) -> str:
    """Return a hint if this process has no permission to read a file, else the empty string."""
    try:
        status = path.stat()
    except OSError:  # its folder must not be read either
        return ""
    if not isinstance(error, PermissionError):
        return ""
    return (
        f": its owner is {status.st_uid}:{status.st_gid}, its mode {S_IMODE(status.st_mode):04o}, and this "
        f"process runs as {os.geteuid()}:{os.getegid()}: let this user read it"
    )


def _with_paths_from(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    def placed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: placed(path) for name, path in value.items()}
        return str(folder / value) if isinstance(value, str) else value

    return {
        name: placed(value) if name in PATHS or name == "counters" else value
        for name, value in values.items()
    }


def _parsed(texts: dict[str, Any]) -> dict[str, Any]:
    """Return texts parsed as the types of their settings. An invalid text stays, and fails validation."""
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
