"""Strategy `collapse_summary`: a graph becomes counts and its most connected nodes. For dependency graphs.

Decides what an edge is in free text, and the rungs of a text that has some.

A line says edges if it reads, blanks around it and a bullet (`- `, `* `, `+ `) before it left out:
- nodes with joints between them. A joint is `->`, `-->`, `<->`, `=>`, `→`, or one of the words imports,
  requires, uses, calls, depends on, with a space or tab on both sides. Each joint is an edge. The last place
  may hold several nodes, with commas between them: `a -> b, c` says two edges, `a -> b -> c` as well;
- else an import, an edge whose other end is not named: `from b import …`, `import … from b`,
  `export … from b`, `import b`, `import b, c`.
Around a node, blanks, quotes, backticks, semicolons and commas are no part of it. A line with an empty place
says nothing.

Edges that are said twice count once. A node has the edges that name it. Nodes stand by edges descending, then
by code points.

Rungs:
1. The first k nodes, a line `NODE (EDGES)` each, below the marker
   `[... N lines collapsed to E edges between V nodes; most edges first:]`. N counts lines that are not blank.
2. The counts alone: `[... N lines collapsed to E edges between V nodes]`.
A text that says no edge is cut at its end: the first k lines, then the first k code points of the first line.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import TypeAlias

from apportion.core.shrink.cuts import BLANK, first_characters, first_lines
from apportion.core.shrink.ladder import Rung

_Edge: TypeAlias = tuple[str, ...]
"""Two nodes, or the only one that is named."""

_BULLET = re.compile(r"[-*+] ")
_JOINT = re.compile(r"<?--?>|=>|→|[ \t](?:imports|requires|uses|calls|depends on)[ \t]")
_IMPORT = re.compile(
    r"from[ \t]+([^ \t]+)[ \t]+import[ \t]|(?:import|export)[ \t].*[ \t]from[ \t](.+)|import[ \t](.+)"
)
_AROUND_NODE = BLANK + "\"'`;,"


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    lines = [line for line in content.split("\n") if line.strip(BLANK)]
    edges = frozenset(edge for line in lines for edge in _edges(line))
    if not edges:
        return (first_lines(content), first_characters(content))
    degrees = Counter(node for edge in edges for node in set(edge))
    nodes = sorted(degrees, key=lambda node: (-degrees[node], node))
    counts = f"[... {len(lines)} lines collapsed to {len(edges)} edges between {len(nodes)} nodes"

    def most_connected(kept: int) -> str:
        shown = (f"\n{node} ({degrees[node]})" for node in nodes[:kept])
        return f"{counts}; most edges first:]{''.join(shown)}"

    return (Rung(len(nodes), most_connected), Rung(1, lambda _: f"{counts}]"))


def _edges(line: str) -> tuple[_Edge, ...]:
    said = line.strip(BLANK)
    bullet = _BULLET.match(said)
    if bullet is not None:
        said = said[bullet.end() :]
    *before, last = _JOINT.split(said)
    if not before:
        imported = _IMPORT.match(said)
        if imported is None:
            return ()
        last = imported[imported.lastindex or 0]
    chain = [_node(place) for place in before]
    ends = [_node(place) for place in last.strip(_AROUND_NODE).split(",")]
    if not (all(chain) and all(ends)):
        return ()
    return (*pairwise(chain), *((*chain[-1:], end) for end in ends))


def _node(place: str) -> str:
    return place.strip(_AROUND_NODE)
