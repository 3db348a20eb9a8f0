"""Requests for lanes, drawn at random: candidates, constraints, vitals, and policies of three lanes."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LANES = ("policy", "local", "history")
KINDS = ("constraint", "rule_doc", "recent_edit", "semantic_match", "session_history")
PATHS = ("a.py", "src/a.py", "src/deep/b.py", "docs/b.md")
PATTERNS = ("*.py", "src/*", "src/**", "**/b.*", "docs/?.md", "**")
AGES_S = (-5, 0, 59, 60, 299, 300, 1_799, 1_800, 7_199, 7_200, 86_399, 86_400, 10**7)

shares = st.sampled_from([0, 1, 0.5, 0.0045, 0.0044]) | st.floats(0, 1)
moments = st.sampled_from(AGES_S).map(lambda age_s: (NOW - timedelta(seconds=age_s)).isoformat())
subjects = st.sampled_from([{}, {}, {"subject": "s"}, {"subject": "t"}])
labels = st.sampled_from([{}, {}, {"source_label": "é.md, page 2"}, {"source_label": "{id} " * 9}])
sources = st.sampled_from([{}, {"source": "a"}, {"source": "b"}])
quotas = st.sampled_from(
    [
        {},
        {},
        {"max_items_per_source": 1},
        {"max_items_per_source": 2},
        {"max_share_per_source": 300},
        {"max_items_per_source": 2, "max_share_per_source": 500},
        {"max_share_per_source": 0},
    ]
)
"""The quotas of a lane's sources."""
_pieces = ["a", "word ", "two words\n", "é", "漢字\n", "\n\n", "x" * 20, "one line of many\n" * 4]
contents = st.lists(st.sampled_from(_pieces), max_size=12).map("".join)


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return up to twelve candidates; equal ids have equal content and metadata.

    If all estimates are 1 token, all candidates are selected, and fitting must shorten the text.
    """
    known: dict[int, dict[str, Any]] = {}
    drawn = []
    estimates = draw(st.sampled_from([st.just(None), st.none() | st.integers(1, 40), st.just(1)]))
    for name in draw(st.lists(st.integers(0, 14), min_size=draw(st.sampled_from([0, 3, 6])), max_size=12)):
        candidate = known.setdefault(
            name,
            {
                "lane": draw(st.sampled_from(LANES)),
                "kind": draw(st.sampled_from(KINDS)),
                "content": draw(contents),
                **draw(st.sampled_from([{}, *({"path": path} for path in PATHS)])),
                **draw(subjects),
                **draw(sources),
                **draw(labels),
            },
        )
        ranking = {key: draw(shares) for key in ("relevance", "specificity", "risk_alignment")}
        recency = draw(st.sampled_from([("recency_bucket", st.integers(0, 5)), ("created_at", moments)]))
        drawn.append({"id": f"id-{name}", **candidate, **ranking, recency[0]: draw(recency[1])})
        if estimate := draw(estimates):
            drawn[-1]["token_estimate"] = estimate
    return drawn


matches = st.one_of(
    st.integers(0, 15).map(lambda name: {"type": "id", "value": f"id-{name}"}),
    st.sampled_from(KINDS).map(lambda kind: {"type": "kind", "value": kind}),
    st.sampled_from(LANES).map(lambda lane: {"type": "lane", "value": lane}),
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "pattern", "value": pattern}),
)
_lists = st.lists(matches.map(lambda match: {"match": match}), max_size=2)
_requirements = st.lists(
    st.builds(
        lambda lane, least: {"lane": lane, "min_tokens": least}, st.sampled_from(LANES), st.integers(0, 60)
    ),
    max_size=2,
)
constraints = st.fixed_dictionaries(
    {
        "must_exclude": st.just([]) | _lists,
        "pinned": st.just([]) | _lists | st.just([{"match": {"type": "lane", "value": LANES[0]}}]),
        "must_include": st.just([]) | _lists,
        "lane_requirements": _requirements,
    }
)
vitals = st.fixed_dictionaries(
    {},
    optional={
        "pressure": st.sampled_from(["low", "normal", "high"]),
        "pulse_bpm": st.sampled_from([0, 30, 30.5, 90]),
        "oxygen": st.sampled_from([0, 0.49, 0.5, 1]),
    },
)


scores = st.sampled_from(
    [
        {"recency": 0, "relevance": 100, "specificity": 0, "risk_alignment": 0},
        {"recency": 100, "relevance": 0, "specificity": 0, "risk_alignment": 0},
        {"recency": 1, "relevance": 0, "specificity": 33, "risk_alignment": 66},
        {"age_edges_s": [1, 60, 1_800, 86_400, 10**7]},
    ]
)
_AGED = {"recency": ("recency_bucket", "created_at")}


def lacking(candidates: Iterable[Mapping[str, Any]], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return candidates; every other one has no fields without a weight in the policy's score."""
    weightless = [key for key, weight in table.get("score", {}).items() if weight == 0]
    out = {name for key in weightless for name in _AGED.get(key, (key,))}
    return [
        {key: value for key, value in candidate.items() if place % 2 or key not in out}
        for place, candidate in enumerate(candidates)
    ]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Return a policy's own keys: lanes in any order of priority, headings, a template, a floor."""
    lanes: dict[str, dict[str, Any]] = {}
    for priority, name in enumerate(draw(st.permutations(LANES))):
        low = draw(st.integers(0, 60))
        high = low + draw(st.sampled_from([0, 10, 60, 500]))
        lanes[name] = {"priority": priority, "min_tokens": low, "max_tokens": high}
        lanes[name] |= draw(quotas)
        if draw(st.booleans()):
            lanes[name]["heading"] = f"# {name}"
    drawn: dict[str, Any] = {"lanes": lanes, "shrink": {"floor_tokens": draw(st.integers(0, 15))}}
    if score := draw(st.just({}) | scores):
        drawn["score"] = score
    if draw(st.booleans()):
        label = draw(st.sampled_from(["", " {source_label}"]))
        drawn["render"] = {"template": f"<{{kind}} {{id}} {{lane}}{label}>{{content}}</>"}
    return drawn
