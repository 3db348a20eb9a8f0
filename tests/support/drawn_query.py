"""Requests with a query for lanes, drawn at random: contents of several passages, and questions."""

from typing import Any

from hypothesis import strategies as st

from support.drawn_lanes import LANES, PATHS, labels, shares, sources, subjects

WORDS = (
    *("retry", "HTTPServer", "cancel_job", "jobs", "the", "timeouts", "payment", "x", "v2"),
    *("é漢", "straße", "class", "a"),
    *("fixed", "this", "thing", "retrying", "retries", "cancelled", "there", "payingly"),
)
KINDS = ("rule_doc", "recent_edit", "semantic_match", "session_history", "symbol_context")
_lines = st.builds(
    lambda indent, words, end: indent + " ".join(words) + end,
    st.sampled_from(["", "", "    ", "\t", "  "]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    st.sampled_from(["\n", "\n", "\n\n", "\n\n", "\n \t\r\n", "\r\n", "\r"]),
)
_long = st.lists(_lines, min_size=8, max_size=30).map("".join)
_rows = st.lists(
    st.lists(st.sampled_from([*WORDS, "|", " "]), min_size=1, max_size=40).map(" ".join),
    min_size=2,
    max_size=30,
)
unspaced = st.builds(
    lambda header, rows: header + "\n".join(rows), st.sampled_from(["", "| jobs | n |\n|---|:--|\n"]), _rows
)
"""Contents without blank lines, with long and short lines; some are tables."""
contents = (
    _long
    | unspaced
    | st.lists(_lines, max_size=8).map("".join)
    | st.sampled_from(["", "\n", "jobs", "jobs\n", "\n\n\n", "\r\r", "\0", "x" * 300, "jobs\n" * 60])
    | st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace").decode())
)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join) | st.sampled_from(
    ["", "zebra", "src a.py", "Scheduler.cancelJob?", "b md"]
)
query_tables = st.fixed_dictionaries(
    {
        "weight": st.sampled_from([0, 1, 300, 500, 1_000]),
        "passage_characters": st.sampled_from([100, 120, 200, 0, 2_400]),
    },
    optional={
        "drop_words": st.booleans(),
        "file_share": st.sampled_from([0, 300, 1_000]),
        "stems": st.booleans(),
        "neighbours": st.sampled_from([0, 1, 300, 1_000]),
        "adjacent": st.sampled_from([0, 1, 100, 1_000]),
    },
)


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return up to eight candidates with or without a relevance; equal ids have equal contents."""
    known: dict[int, dict[str, Any]] = {}
    drawn = []
    for name in draw(st.lists(st.integers(0, 9), max_size=8)):
        candidate = known.setdefault(
            name,
            {
                "lane": draw(st.sampled_from(LANES)),
                "kind": draw(st.sampled_from(KINDS)),
                "content": draw(_long if draw(st.integers(0, 3)) else contents),
                **draw(st.sampled_from([{}, *({"path": path} for path in PATHS)])),
                **draw(subjects),
                **draw(sources),
                **draw(labels),
                **draw(st.sampled_from([{}, *({"chunk_index": place} for place in range(4))])),
            },
        )
        given = {key: draw(shares) for key in ("specificity", "risk_alignment")}
        if draw(st.booleans()):
            given["relevance"] = draw(shares)
        if draw(st.sampled_from([False, False, True])):
            given["token_estimate"] = draw(st.integers(1, 40))
        drawn.append({"id": f"id-{name}", **candidate, **given, "recency_bucket": draw(st.integers(0, 5))})
    return drawn
