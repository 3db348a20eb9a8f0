"""Sessions for lanes, drawn at random: candidates come again turn after turn, a few of them otherwise."""

from typing import Any

from hypothesis import strategies as st

from support.drawn_lanes import KINDS, LANES, contents, subjects

LEVELS = (0, 0.2, 0.4, 0.6, 0.8, 1)
_STEPS_S = (0, 1, 1, 1, 1, 1, 30, 299, 300, 301, -1, -400)
_ROOM = (0, 20, 60, 60, 120, 500)
_CHANGES = ("gone", "changed", "emptied")

steps_s = st.sampled_from(_STEPS_S)
"""The seconds between turns."""


@st.composite
def sources(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the candidates of a session: a few that may have to give way, or many that never do."""
    many = st.sampled_from([st.integers(1, 3), st.integers(5, 12)])
    few = draw(st.integers(0, 2)) == 0
    texts = contents.filter(bool) if few else st.sampled_from(["a", "é", "two\nlines"])
    estimates = st.none() | st.integers(1, 40) if few else draw(many)
    drawn = []
    for number in range(draw(st.integers(1, 6) if few else st.integers(6, 20))):
        one: dict[str, Any] = {
            "id": f"id-{number}",
            "lane": draw(st.sampled_from(LANES)),
            "kind": draw(st.sampled_from(KINDS)),
            "content": draw(texts),
            **draw(subjects),
            **draw(st.sampled_from([{}, {"source": "a"}])),
        }
        if estimate := draw(estimates):
            one["token_estimate"] = estimate
        drawn.append(one)
    return drawn


@st.composite
def turns(draw: st.DrawFn, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the candidates of one turn: most of them unchanged, with new ranks."""
    changes = draw(st.just({}) | st.dictionaries(st.integers(0, 19), st.sampled_from(_CHANGES), max_size=2))
    drawn = []
    for number, one in enumerate(given):
        match changes.get(number):
            case "gone":
                continue
            case "changed":
                fields = {**one, "content": one["content"] + "!"}
            case "emptied":
                fields = {**one, "content": ""}
            case _:
                fields = one
        ranking = {"relevance": draw(st.sampled_from(LEVELS)), "specificity": 0.5, "risk_alignment": 0.5}
        drawn.append({**fields, **ranking, "recency_bucket": 1})
    return draw(st.permutations(drawn))


def _limits() -> st.SearchStrategy[list[dict[str, Any]]]:
    by_id = st.integers(0, 10).map(lambda number: {"match": {"type": "id", "value": f"id-{number}"}})
    return st.just([]) | st.just([]) | st.just([]) | st.lists(by_id, max_size=2)


constraints = st.fixed_dictionaries(
    {
        "must_exclude": _limits(),
        "pinned": _limits(),
        "must_include": _limits(),
        "lane_requirements": st.just([]),
    }
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Return a policy's own keys."""
    lanes: dict[str, dict[str, Any]] = {}
    for priority, name in enumerate(LANES):
        low = draw(st.sampled_from([0, 0, 5, 20]))
        lanes[name] = {
            "priority": priority,
            "min_tokens": low,
            "max_tokens": low + draw(st.sampled_from(_ROOM)),
            **draw(st.sampled_from([{}, {}, {}, {"max_items_per_source": 2}, {"max_share_per_source": 500}])),
        }
    drawn: dict[str, Any] = {
        "lanes": lanes,
        "shrink": {"floor_tokens": draw(st.integers(0, 15))},
        "prefix": {
            "weight": draw(st.sampled_from([1, 50, 200, 1_000, 1_000_000])),
            "max_loss": draw(st.sampled_from([0, 50, 300, 1_000])),
            "core": draw(st.sampled_from([0, 100, 500, 1_000])),
            "min_cached": draw(st.sampled_from([0, 0, 20, 60])),
            "ttl_s": 300,
        },
    }
    if draw(st.booleans()):
        drawn["render"] = {"template": "<{kind} {id} {lane}>{content}</>"}
    return drawn
