"""Contents that share sentences, some of them equal, and what goes with them, drawn at random."""

from hypothesis import strategies as st

SENTENCES = (
    "The retry in the payment client swallows timeouts.",
    "The runbook says that timeouts must page within five minutes.",
    "Error E17 is raised when the upstream service does not answer in time.",
    "Error E18 is raised when the upstream service does not answer in time.",
    "Nobody has looked at it since the summer.",
    "漢字 and é stand here, too.",
)

contents = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4).map(" ".join) | st.sampled_from(
    ["short", "x1", "", SENTENCES[0]]
)
scores = st.sampled_from([0, 1, 499, 500, 1_000])
"""Thousandths."""
estimates = st.none() | st.integers(1, 40)
thresholds = st.sampled_from([1, 300, 1_000])
