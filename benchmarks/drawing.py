"""The style of all plots of the benchmarks, which an import of this module sets."""

import matplotlib as mpl

GREY, BLUE, ORANGE = "#9aa4b1", "#2563eb", "#f59e0b"

mpl.use("svg")
mpl.rcParams.update(
    {
        "svg.hashsalt": "apportion",  # the same figures give the same file
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)
