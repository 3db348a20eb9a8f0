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
from collections.abc import Iterable
from itertools import accumulate, chain, pairwise, repeat
from typing import TypeAlias

from apportion.core.shrink.cuts import BLANK, first_characters, first_lines
from apportion.core.shrink.ladder import Rung

_Edge: TypeAlias = tuple[str, ...]
"""Two nodes, or the only one that is named."""

_BULLETS = ("- ", "* ", "+ ")
_JOINT = re.compile(r"<?--?>|=>|→|[ \t](?:imports|requires|uses|calls|depends on)[ \t]")
_IMPORT = re.compile(
    r"from[ \t]+([^ \t]+)[ \t]+import[ \t]|(?:import|export)[ \t].*[ \t]from[ \t](.+)|import[ \t](.+)"
)
_PLAIN = re.compile(r"([0-9A-Za-z_./:]+) -> ([0-9A-Za-z_./:]+)")
"""Most lines of most graphs: what such a line says needs no looking for joints, commas and quotes."""
_AROUND_NODE = BLANK + "\"'`;,"


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    lines = [said for line in content.split("\n") if (said := line.strip(BLANK))]
    edges: set[_Edge] = set()
    for said in set(lines):
        if plain := _PLAIN.fullmatch(said):
            edges.add(plain.groups())
        else:
            edges.update(_edges(said))
    if not edges:
        return (first_lines(content), first_characters(content))
    degrees = Counter(chain.from_iterable(edges))
    degrees.subtract(edge[0] for edge in edges if len(edge) > 1 and edge[0] == edge[1])
    nodes = sorted(sorted(degrees), key=degrees.__getitem__, reverse=True)
    counts = f"[... {len(lines)} lines collapsed to {len(edges)} edges between {len(nodes)} nodes"
    shown = [f"\n{node} ({degrees[node]})" for node in nodes]
    head = f"{counts}; most edges first:]"
    whole = head + "".join(shown)
    ends = list(accumulate(map(len, shown), initial=len(head)))
    return (Rung(len(nodes), lambda kept: whole[: ends[kept]]), Rung(1, lambda _: f"{counts}]"))


def _edges(said: str) -> Iterable[_Edge]:
    """Return what a line says that has no blanks around it."""
    if said.startswith(_BULLETS):
        said = said[2:]
    *before, last = _JOINT.split(said)
    if not before:
        imported = _IMPORT.match(said)
        if imported is None:
            return ()
        last = imported[imported.lastindex or 0]
    ends = [place.strip(_AROUND_NODE) for place in last.strip(_AROUND_NODE).split(",")]
    nodes = [place.strip(_AROUND_NODE) for place in before]
    if not (all(nodes) and all(ends)):
        return ()
    if not nodes:
        return [(end,) for end in ends]
    return chain(pairwise(nodes), zip(repeat(nodes[-1]), ends))
