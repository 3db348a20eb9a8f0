"""Subjects of the topics in a registry: their plan, their registration, and the comparison with their plan.

A subject is named `TOPIC-value`. A version that exists is never changed or deleted. The compatibility of a
subject is set only if it has none of its own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct, json

from apportion.contracts.registry.client import (
    RegisteredSchema,
    RegistryClient,
    SchemaRejectedError,
    open_registry,
)
from apportion.contracts.schemas.topics import TopicSchema, topic_schemas
from apportion.settings import Settings

SCHEMA_ID_HEADER = "__value_schema_id"
"""Header with the id of the schema of a worker's output, as Confluent's clients read it."""
_PLACES_MAX = 5
"""Number of places at which a report names differences."""


SchemaHeader: TypeAlias = tuple[str, bytes]


class Subject(Struct, frozen=True):
    """A planned subject: its topic's schema."""

    topic: str
    schema: TopicSchema

    @property
    def name(self) -> str:
        """The name, by the strategy that Confluent's clients use by default."""
        return f"{self.topic}-value"


class SubjectStatus(StrEnum):
    """The state of a subject compared with its plan; the last three are failures."""

    REGISTERED = "registered"
    EXISTS = "exists"
    MISSING = "missing"
    DIFFERS = "differs"
    REFUSED = "refused"


class SubjectReport(Struct, frozen=True):
    """The status of a subject, and its explanation."""

    subject: str
    status: SubjectStatus
    why: str = ""

    def __str__(self) -> str:
        return f"{self.subject} ({self.status}{self.why and f': {self.why}'})"

    @property
    def is_ready(self) -> bool:
        """Whether this version's events can be described by the subject."""
        return self.status in (SubjectStatus.REGISTERED, SubjectStatus.EXISTS)


class SubjectsNotReadyError(Exception):
    """Subjects are missing, differ from the plan, or do not take this version's schema."""

    code = "subjects_not_ready"

    def __init__(self, reports: Iterable[SubjectReport]) -> None:
        named = ", ".join(map(str, reports))
        super().__init__(
            f"not as planned: {named}; `apportion topics register` registers missing schemas, but a version "
            "or a compatibility that exists is yours to change"
        )


def plan_subjects(settings: Settings) -> tuple[Subject, ...]:
    """Return the subjects of all topics with JSON values, that is, of all topics except the changelog."""
    return tuple(Subject(getattr(settings, name), schema) for name, schema in topic_schemas().items())


async def check_subjects(settings: Settings) -> tuple[SubjectReport, ...]:
    """Compare the subjects with their plan; the reports are in the order of the plan.

    Raises RegistryUnreachableError, RegistryRefusedError or SettingsError.
    """
    async with open_registry(settings) as registry:
        return tuple([await _check(registry, subject) for subject in plan_subjects(settings)])


async def register_subjects(settings: Settings) -> tuple[SubjectReport, ...]:
    """Register missing schemas, and set missing compatibilities first.

    Reports and errors are as in `check_subjects`, with `registered` for a new schema and `refused` for one
    that the registry does not take.
    """
    async with open_registry(settings) as registry:
        return tuple([await _register(registry, subject) for subject in plan_subjects(settings)])


def require_subjects(reports: Iterable[SubjectReport]) -> None:
    """Raise SubjectsNotReadyError, which names the subjects that are not ready."""
    if failed := [report for report in reports if not report.is_ready]:
        raise SubjectsNotReadyError(failed)


async def find_schema_headers(settings: Settings, topics: Collection[str]) -> Mapping[str, SchemaHeader]:
    """Return the header of each of these topics, looked up in the registry; none without a registry.

    Raises SubjectsNotReadyError for a schema that is not registered, and as `check_subjects`.
    """
    if settings.schema_registry is None:
        return {}
    subjects = [subject for subject in plan_subjects(settings) if subject.topic in topics]
    async with open_registry(settings) as registry:
        found = {subject: await registry.find(subject.name, subject.schema.value) for subject in subjects}
    missing = [
        SubjectReport(subject.name, SubjectStatus.MISSING) for subject, schema in found.items() if not schema
    ]
    if missing:
        raise SubjectsNotReadyError(missing)
    return {
        subject.topic: (SCHEMA_ID_HEADER, schema.header_value())
        for subject, schema in found.items()
        if schema
    }


async def _check(registry: RegistryClient, subject: Subject) -> SubjectReport:
    latest = await registry.find_latest(subject.name)
    if latest is None:
        return SubjectReport(subject.name, SubjectStatus.MISSING)
    found = await registry.find(subject.name, subject.schema.value)
    if found is None:
        places = ", ".join(_differences(json.decode(latest.schema), json.decode(subject.schema.value)))
        why = f"version {latest.version} is another schema, at {places}"
        return SubjectReport(subject.name, SubjectStatus.DIFFERS, why)
    compatibility = await registry.compatibility(subject.name)
    if compatibility != subject.schema.compatibility:
        return _other_compatibility(subject, compatibility)
    return SubjectReport(subject.name, SubjectStatus.EXISTS, _versions(found, latest))


async def _register(registry: RegistryClient, subject: Subject) -> SubjectReport:
    compatibility = await registry.compatibility(subject.name)
    if compatibility is None:
        compatibility = subject.schema.compatibility
        await registry.set_compatibility(subject.name, compatibility)
    status = SubjectStatus.EXISTS
    found = await registry.find(subject.name, subject.schema.value)
    if found is None:
        try:
            await registry.register(subject.name, subject.schema.value)
        except SchemaRejectedError as error:
            return SubjectReport(subject.name, SubjectStatus.REFUSED, str(error))
        status = SubjectStatus.REGISTERED
        found = await registry.find(subject.name, subject.schema.value)
    if compatibility != subject.schema.compatibility:
        return _other_compatibility(subject, compatibility)
    return SubjectReport(subject.name, status, "" if found is None else _versions(found, found))


def _other_compatibility(subject: Subject, compatibility: str | None) -> SubjectReport:
    actual = compatibility or "not set"
    why = f"compatibility is {actual}, planned {subject.schema.compatibility}"
    return SubjectReport(subject.name, SubjectStatus.DIFFERS, why)


def _versions(found: RegisteredSchema, latest: RegisteredSchema) -> str:
    newer = f", the latest is {latest.version}" if latest.version != found.version else ""
    return f"version {found.version}, id {found.guid or found.id}{newer}"


def _differences(actual: Any, planned: Any) -> list[str]:
    """Return the first places at which two schemas differ, as `$.properties.tokens`."""
    pointers = list(islice(_pointers(actual, planned, "$"), _PLACES_MAX + 1))
    return pointers if len(pointers) <= _PLACES_MAX else [*pointers[:_PLACES_MAX], "…"]


def _pointers(actual: Any, planned: Any, pointer: str) -> Iterator[str]:
    if isinstance(actual, dict) and isinstance(planned, dict):
        for key in sorted(actual.keys() | planned.keys()):
            if key not in actual or key not in planned:
                yield f"{pointer}.{key}"
            else:
                yield from _pointers(actual[key], planned[key], f"{pointer}.{key}")
    elif actual != planned:
        yield pointer
