"""A query over whole candidates is the same as bringing the relevance that it gives, turn by turn."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import drawn_turns
from support.composing import answer, lanes_policy, request
from support.drawn_query import contents, queries
from support.lanes_model import thousandths
from support.query_rules import relevances

from apportion.core.results import Fidelity
from apportion.core.session.row import EMPTY

TOTAL = 10_000


def brought(candidates: list[dict[str, Any]], query: str, weight: int) -> list[dict[str, Any]]:
    """Return the candidates with the relevance that a query gives them, by the rules."""
    offered = [candidate for candidate in candidates if candidate["content"]]
    found, _ = relevances(query, [[candidate["content"]] for candidate in offered], offered)
    shares = {candidate["id"]: share for candidate, [share] in zip(offered, found, strict=True)}
    changed = []
    for candidate in candidates:
        own = thousandths(candidate["relevance"])
        blended = ((1_000 - weight) * own + weight * shares.get(candidate["id"], 0) + 500) // 1_000
        changed.append(candidate | {"relevance": (blended if any(shares.values()) else own) / 1_000})
    return changed


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(), drawn_turns.tables(), drawn_turns.sources(), st.sampled_from([0, 500, 1_000]), st.booleans()
)
def test_held_turns_with_a_query_use_its_relevance(
    data: st.DataObject,
    table: dict[str, Any],
    sources: list[dict[str, Any]],
    weight: int,
    overlap: bool,  # noqa: FBT001 - drawn
) -> None:
    table = {**table, **({"overlap": {"threshold": 300}} if overlap else {}), "query": {"weight": weight}}
    policy = lanes_policy(budget_tokens=TOTAL, **table)
    # supersession within a subject uses the candidates' own relevance
    drawn = [source | {"content": data.draw(contents)} for source in sources]
    for candidate in drawn:
        candidate.pop("subject", None)
    asked_row, plain_row = EMPTY, EMPTY
    for number in range(data.draw(st.integers(1, 3))):
        candidates, query = data.draw(drawn_turns.turns(drawn)), data.draw(queries)
        candidates = list({candidate["id"]: candidate for candidate in candidates}.values())
        budget = data.draw(st.integers(10, 200))
        fields = {"budget_tokens": budget, "requested_at": f"2026-03-01T12:00:0{number}Z"}
        asked = answer(request(candidates, query=query, **fields), policy, asked_row)
        plain = answer(request(brought(candidates, query, weight), **fields), policy, plain_row)
        asked_row, plain_row = asked.session, plain.session
        assert asked.composed.text == plain.composed.text
        assert asked.composed.items == plain.composed.items
        assert asked.decision.prefix == plain.decision.prefix
        assert not any(item.fidelity is Fidelity.EXCERPT for item in asked.composed.items)


def test_an_excerpt_is_between_the_marks_of_its_candidate() -> None:
    content = "\n\n".join(f"def step_{n}():\n    return refund_{n}()" for n in range(40))
    candidate = {"id": "a", "kind": "recent_edit", "lane": "local", "content": content, "recency_bucket": 0}
    candidate |= {"specificity": 0, "risk_alignment": 0}
    template = "<item {mark}>\n{content}\n</item {mark}>"
    policy = lanes_policy(render={"template": template}, query={"passage_characters": 200})
    excerpt, whole = (
        answer(request([candidate], query="refund_7", budget_tokens=budget), policy).composed
        for budget in (90, 5_000)
    )
    assert excerpt.text
    assert whole.text
    assert [item.fidelity for item in (*excerpt.items, *whole.items)] == [Fidelity.EXCERPT, Fidelity.FULL]
    first, last = excerpt.text.splitlines()[0], excerpt.text.splitlines()[-1]
    assert (first, last) == (whole.text.splitlines()[0], whole.text.splitlines()[-1])
    assert excerpt.tokens.used <= 90
