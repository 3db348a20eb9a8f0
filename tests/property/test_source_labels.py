"""Source labels: each is shown whole before its candidate, within the limit, and no decision has it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from support.asking import Jumpy, engine_with
from support.composing import ENGINE, answer, artifact, candidate, lanes_policy, request, selected

from apportion import fit
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode
from apportion.engine.policies import builtin_policies

WORD = "zqx"
labels = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40).map(lambda text: WORD + text)
contents = st.lists(st.sampled_from(["jobs", "\n", "\n\n", "漢字", "x" * 40, "a jobs b\n" * 9]), min_size=1)
COMPOSER = Composer(ENGINE, Catalogue(builtin_policies()), "lanes", Memory())
POLICIES: dict[str, dict[str, Any]] = {
    "lanes": {"lanes": {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 150}}},
    "categories": {"categories": {"c": {"priority": 1, "budget_tokens": 150}}},
    "tiers": {},
}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(labels, contents.map("".join), st.floats(0, 1)), min_size=1, max_size=6),
    st.sampled_from(list(POLICIES)),
    st.integers(1, 120),
    st.sampled_from(list(CounterName)),
    st.sampled_from([None, "jobs"]),
    st.sampled_from([ENGINE, engine_with(Jumpy())]),
)
def test_each_label_is_shown_whole_within_the_limit_and_no_decision_has_it(
    offered: list[tuple[str, str, float]],
    strategy: str,
    limit: int,
    counter: CounterName,
    query: str | None,
    engine: Engine,
) -> None:
    limit += 100 * (strategy == "categories")
    own: dict[str, Any] = {"kind": "directive", "category": "c", "lane": None} if strategy != "lanes" else {}
    candidates = [
        candidate(f"c{place}", source_label=label, content=text, relevance=number, activation=number,
                  priority=number, **own)
        for place, (label, text, number) in enumerate(offered)
    ]  # fmt: skip
    raw = {"name": "p", "version": "1", "strategy": strategy, "counter": counter, **POLICIES[strategy]}
    more = {"query": query} if strategy == "lanes" else {}
    session, _ = COMPOSER.handle(artifact(candidates[0]), EMPTY)
    asked = request(candidates[1:], budget_tokens=limit, **more)
    outcome = answer(asked, parse_policy(raw), session, engine=engine)
    text = outcome.composed.text or ""
    assert engine.counters[counter].count(text) == outcome.composed.tokens.used <= limit
    place = 0
    for name in selected(outcome):
        line = offered[int(name[1:])][0] + "\n"
        place = text.index(line, place) + len(line)
    if all(item.fidelity != "excerpt" for item in outcome.composed.items):
        assert all(group.max is UNSET or group.used <= group.max for group in outcome.decision.groups)
    assert WORD not in encode(outcome.decision).decode()


def text_of(template: str | None, **changes: Any) -> str:
    policy = lanes_policy(**({"render": {"template": template}} if template else {}))
    return answer(request([candidate("a", 1, content="text", **changes)]), policy).composed.text or ""


def test_a_template_places_the_label() -> None:
    assert text_of(None, source_label="p. 2") == "p. 2\ntext"
    assert text_of("<{content}>", source_label="p. 2") == "<p. 2\ntext>"
    assert text_of("[{source_label}] {content}", source_label="p. 2") == "[p. 2] text"
    assert text_of("{{source_label}} {content}", source_label="p. 2") == "{source_label} p. 2\ntext"
    assert text_of("[{source_label}] {content}") == "[] text"


@pytest.mark.parametrize("label", ["", "a\nb", "a\x9fb", "x" * 513])
def test_another_text_than_one_line_of_512_characters_is_refused(label: str) -> None:
    for make, pointer in ((lambda one: request([one]), "$.candidates[0]"), (artifact, "$.artifact")):
        with pytest.raises(EventError) as refused:
            make(candidate("a", source_label=label))
        assert refused.value.pointer == f"{pointer}.source_label"


def test_another_label_is_another_candidate() -> None:
    policy = lanes_policy(render={"template": "{mark}{content}{mark}"})
    first, other, bare = (
        answer(request([candidate("a", source_label=label)], request_id="r"), policy)
        for label in ("p. 1", "p. 2", None)
    )
    assert len({each.decision.digests.candidates for each in (first, other, bare)}) == 3
    assert len({(each.composed.text or "")[:16] for each in (first, other, bare)}) == 3
    with pytest.raises(EventError, match="another source_label"):
        answer(request([candidate("a", source_label=label) for label in ("p. 1", "p. 2")]), policy)


def test_fit_takes_artifacts_with_labels() -> None:
    found = [{"content": "9 to 5", "source_label": "p. 2"}]
    fitted = fit([{"role": "user", "content": "hours?"}], 200, artifacts=found)
    assert fitted.messages[0]["content"] == "p. 2\n9 to 5"
