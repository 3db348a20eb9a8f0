"""Registration of the topics' schemas, and the comparison with registered schemas."""

import json
from collections.abc import Iterator

import pytest
from support.registries import Registry, serving

from apportion.contracts.registry.subjects import (
    SubjectsNotReadyError,
    SubjectStatus,
    check_subjects,
    plan_subjects,
    register_subjects,
    require_subjects,
)

pytestmark = pytest.mark.asyncio

SUBJECTS = (
    "context-requests-value",
    "context-policies-value",
    "context-composed-value",
    "context-decisions-value",
    "context-dead-letters-value",
    "context-usage-value",
)
COMPOSED = SUBJECTS[2]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


async def test_all_schemas_are_registered_under_the_names_of_their_topics(registry: Registry) -> None:
    settings = registry.settings()
    reports = await register_subjects(settings)
    require_subjects(reports)
    assert [(report.subject, report.status) for report in reports] == [
        (subject, SubjectStatus.REGISTERED) for subject in SUBJECTS
    ]
    assert reports[0].why == "version 1, id 1"
    planned = {subject.name: subject.schema for subject in plan_subjects(settings)}
    assert {
        name: [registry.schemas[number].encode() for number in versions]
        for name, versions in registry.subjects.items()
    } == {name: [schema.value] for name, schema in planned.items()}
    assert registry.compatibilities == {name: schema.compatibility for name, schema in planned.items()}


async def test_registering_again_changes_nothing(registry: Registry) -> None:
    await register_subjects(registry.settings())
    registry.calls.clear()
    reports = await register_subjects(registry.settings())
    assert {report.status for report in reports} == {SubjectStatus.EXISTS}
    assert registry.changes == []


async def test_subjects_have_the_topics_own_names(registry: Registry) -> None:
    await register_subjects(registry.settings(topic_prefix="eu.", composed_topic="answers"))
    assert "eu.answers-value" in registry.subjects
    assert registry.subjects.keys().isdisjoint(SUBJECTS)


async def test_a_check_changes_nothing_and_names_missing_subjects(registry: Registry) -> None:
    reports = await check_subjects(registry.settings())
    assert {report.status for report in reports} == {SubjectStatus.MISSING}
    assert registry.changes == []
    with pytest.raises(SubjectsNotReadyError, match=r"context-usage-value \(missing\).* topics register"):
        require_subjects(reports)
    await register_subjects(registry.settings())
    require_subjects(await check_subjects(registry.settings()))


async def test_another_schema_is_a_difference_with_its_places_until_this_versions_is_registered(
    registry: Registry,
) -> None:
    await register_subjects(registry.settings())
    number = registry.subjects[COMPOSED][0]
    earlier = json.loads(registry.schemas[number])
    del earlier["properties"]["breakpoints"]
    earlier["required"].remove("status")
    registry.schemas[number] = json.dumps(earlier)
    [report] = [report for report in await check_subjects(registry.settings()) if not report.is_ready]
    assert str(report) == (
        f"{COMPOSED} (differs: version 1 is another schema, at $.properties.breakpoints, $.required)"
    )
    reports = await register_subjects(registry.settings())
    assert [(report.subject, report.why) for report in reports if report.status == "registered"] == [
        (COMPOSED, "version 2, id 7")
    ]
    require_subjects(await check_subjects(registry.settings()))


async def test_a_newer_version_of_another_release_is_no_difference(registry: Registry) -> None:
    await register_subjects(registry.settings())
    registry.answer("POST", ["subjects", COMPOSED, "versions"], {"schema": "{}"})
    reports = {report.subject: report for report in await check_subjects(registry.settings())}
    assert str(reports[COMPOSED]) == f"{COMPOSED} (exists: version 1, id 3, the latest is 2)"


async def test_a_compatibility_that_is_set_stays_and_is_a_difference(registry: Registry) -> None:
    registry.compatibilities[COMPOSED] = "NONE"
    for reports in (await register_subjects(registry.settings()), await check_subjects(registry.settings())):
        [report] = [report for report in reports if not report.is_ready]
        assert str(report) == (f"{COMPOSED} (differs: compatibility is NONE, planned FORWARD_TRANSITIVE)")
    assert registry.compatibilities[COMPOSED] == "NONE"
    assert COMPOSED in registry.subjects, "the schema itself is registered"


async def test_a_rejected_schema_is_reported_with_the_registrys_reason(registry: Registry) -> None:
    registry.rejection = "Schema being registered is incompatible with an earlier schema"
    reports = await register_subjects(registry.settings())
    assert {(report.status, report.why) for report in reports} == {
        (SubjectStatus.REFUSED, registry.rejection)
    }
    with pytest.raises(SubjectsNotReadyError):
        require_subjects(reports)
