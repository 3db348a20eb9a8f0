"""Strategy `collapse_summary`: a graph becomes counts and its most connected nodes. For dependency graphs.

The text is read as lines. Blanks around a line, and a bullet (`- `, `* `, `+ `) before it, are ignored. A
line has edges if it reads as one of these:
- Nodes with joints between them. A joint is `->`, `-->`, `<->`, `=>`, `→`, or one of the words imports,
  requires, uses, calls, depends on, with a space or tab on both sides. Each joint is an edge. After the last
  joint, several nodes may follow, separated by commas: `a -> b, c` has two edges, and so has `a -> b -> c`.
- An import, which is an edge with one unnamed end: `from b import …`, `import … from b`, `export … from b`,
  `import b`, `import b, c`.
Blanks, quotes, backticks, semicolons and commas around a node are not part of it. A line with a missing node
has no edges.

Repeated edges count once. The number of a node's edges is the number of edges that name it. Nodes are sorted
by that number, highest first, then by code points.

Rungs:
1. The first k nodes, a line `NODE (EDGES)` each, below the marker
   `[... N lines collapsed to E edges between V nodes; most edges first:]`. N counts lines that are not blank.
2. The counts alone: `[... N lines collapsed to E edges between V nodes]`.
A text without edges is cut at its end: the first k lines, then the first k code points of the first line.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate, chain, pairwise, repeat
from typing import TypeAlias

from apportion.core.shrink.cuts import BLANK, first_characters, first_lines
from apportion.core.shrink.ladder import Rung

_Edge: TypeAlias = tuple[str, ...]
"""The two nodes of an edge, or the one named node of an import."""

_BULLETS = ("- ", "* ", "+ ")
_JOINT = re.compile(r"<?--?>|=>|→|[ \t](?:imports|requires|uses|calls|depends on)[ \t]")
_IMPORT = re.compile(
    r"from[ \t]+([^ \t]+)[ \t]+import[ \t]|(?:import|export)[ \t].*[ \t]from[ \t](.+)|import[ \t](.+)"
)
_PLAIN = re.compile(r"([0-9A-Za-z_./:]+) -> ([0-9A-Za-z_./:]+)")
"""The form of most lines of most graphs; it is parsed without a search for joints, commas and quotes."""
_AROUND_NODE = BLANK + "\"'`;,"


def rungs(content: str) -> tuple[Rung, ...]:
    """Return the rungs below a content."""
    lines = [stripped for line in content.split("\n") if (stripped := line.strip(BLANK))]
    edges: set[_Edge] = set()
    for line in set(lines):
        if plain := _PLAIN.fullmatch(line):
            edges.add(plain.groups())
        else:
            edges.update(_edges(line))
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


def _edges(line: str) -> Iterable[_Edge]:
    if line.startswith(_BULLETS):
        line = line[2:]
    *before, last = _JOINT.split(line)
    if not before:
        imported = _IMPORT.match(line)
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
