"""Headers with the ids of the schemas of a worker's outputs, as Confluent's clients read them."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from apportion.contracts.registry.client import open_registry
from apportion.contracts.registry.subjects import (
    SubjectReport,
    SubjectsNotReadyError,
    SubjectStatus,
    plan_subjects,
)
from apportion.settings import Settings

SCHEMA_ID_HEADER = "__value_schema_id"

SchemaHeader: TypeAlias = tuple[str, bytes]


async def find_schema_headers(settings: Settings, topics: Collection[str]) -> Mapping[str, SchemaHeader]:
    """Return the header of each of these topics, looked up in the registry; none without a registry.

    Raises:
        SubjectsNotReadyError: a schema of this version is not registered.
        RegistryUnreachableError, RegistryRefusedError: the registry does not answer, or refuses a call.
        SettingsError: a file of the settings cannot be read, or is invalid.
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
