"""A candidate in canonical form: the order of its facts, and what each of them says."""

from datetime import UTC, datetime

from msgspec.json import decode
from msgspec.structs import fields

from apportion.core.canonical import Facts, canonical_of
from apportion.core.events import Candidate

EVERY = Candidate(
    id="own",
    name="name",
    path="./a.py",
    content="text",
    kind="kind",
    lane="lane",
    category="category",
    language="python",
    summary="summary",
    tags=("b", "a"),
    shrink="truncate_oldest",
    chunk_index=1,
    token_estimate=2,
    recency_bucket=3,
    relevance=0.004,
    specificity=0.005,
    risk_alignment=0.006,
    activation=0.007,
    priority=8,
    weighted_agreement=1e15,
    created_at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
)


def test_the_fields_of_facts_are_in_the_order_of_canonical_json() -> None:
    names = [field.name for field in fields(Facts)]
    assert names == sorted(names)


def test_each_field_of_a_candidate_is_the_fact_of_that_name() -> None:
    assert decode(canonical_of(EVERY, "given", "a.py").canonical) == {
        "activation": 7,
        "category": "category",
        "chunk_index": 1,
        "content": "sha256:982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1",
        "created_at": 1_000_000,
        "id": "given",
        "kind": "kind",
        "lane": "lane",
        "language": "python",
        "name": "name",
        "path": "a.py",
        "priority": 8_000,
        "recency_bucket": 3,
        "relevance": 4,
        "risk_alignment": 6,
        "shrink": "truncate_oldest",
        "specificity": 5,
        "summary": "summary",
        "tags": ["b", "a"],
        "token_estimate": 2,
        "weighted_agreement": "1000000000000000000",
    }


def test_a_candidate_without_fields_has_its_id_alone() -> None:
    assert canonical_of(Candidate(), "given", None).canonical == b'{"id":"given"}'
