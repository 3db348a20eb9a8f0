"""Layers and their policies, drawn for property tests."""

from typing import Any

from hypothesis import strategies as st

from apportion.core.strategy_api.policy import Policy
from support.asking import layers_policy

NAMES = ("project", "fabric", "prior_work", "extra")
PIECES = (
    "a",
    " ",
    "\n",
    "\n\n",
    "é",
    "e\u0301",
    "👩\u200d👩\u200d👧",
    "שלום",
    "漢字",
    "word ",
    "- ",
    "x" * 30,
)
SHARES = ((40, 40, 20, 0), (25, 25, 25, 25), (0, 0, 0, 100), (10, 0, 33, 7), (70, 30, 0, 0))

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
titles = st.sampled_from(["Claims", "Entanglements", "É", ""])


def _sectioned(entries: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    preserve = st.sampled_from([False, False, False, True])
    section = {"title": titles, "entries": st.lists(entries, max_size=6), "preserve": preserve}
    sections = st.lists(st.fixed_dictionaries(section), max_size=4)
    return st.fixed_dictionaries({"sections": sections, "preamble": entries})


def layers_of(entries: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Return layers with texts drawn from these."""
    return st.dictionaries(st.sampled_from(NAMES), entries | _sectioned(entries), max_size=4)


@st.composite
def policies(draw: st.DrawFn, counter: str = "chars4") -> Policy:
    """Return a policy that shares out in some way among four layers, in some order."""
    order = draw(st.permutations(range(len(NAMES))))
    heading = draw(st.sampled_from([{}, {"heading": "# Heading"}]))
    layers = {
        name: {"priority": priority, "share_percent": share, **heading}
        for name, priority, share in zip(NAMES, order, draw(st.sampled_from(SHARES)), strict=True)
    }
    return layers_policy(counter=counter, layers=layers)
