"""Strategy `layers`: how one ceiling is shared by a few long layers.

Decides how much of each layer stands; never which layers there are. Source: the context budget
specification, whose numbers these are; where it is silent, the rules here hold:

- Set aside first: section headings and the entries of sections marked `preserve`, with what marks that the
  others are gone (or the whole layer, where that is no more). If they alone pass the limit, the result is
  infeasible. Then every layer has its part of the limit, and what the layers before it left; what is left
  at the end goes to the layers that were cut, first the first. See `share`.
- Free text is cut at its end, marked `[truncated]` on a line of its own. Of sections, entries go one at a
  time, from the section with most tokens of entries left, from its end. `... and M more TITLE` stands for
  them, with A to Z of the title as small letters and all else as it is. The layer ends in
  `[... truncated, N items omitted]`. Then the preamble is cut like free text, at the end to nothing. An entry
  whose omission would make the layer no shorter, in code points, for its markers are longer, goes only along
  with others, or with all where the counter finds that less. See `form`.
- A layer's heading (the policy's) stands wherever anything of the layer does, and is set aside with its
  section headings; free text for which there is no room takes its heading along. A section shows its heading
  also where it has no entries.
- Every layer given is an item of its own name: its free text, or all of it that is no entry. It is
  `truncated` where anything of the layer was cut, `no_room` where free text (or sections that are only a
  preamble) has no room for the marker and one code point, `no_content` where there is nothing to show.
  Entries are items named `LAYER/SECTION_INDEX/ENTRY_INDEX`. An entry without content is omitted as
  `no_content`, never shown, and in no marker's number.
- Rank: layers by priority, each before its entries, these as they stood. The margin of what was cut is that
  of the layer's next entry or code point: what the text with it had more, and what was left.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import ContextRequest, LayerContent
from apportion.core.results import Margin, Reason
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.policy import LayersPolicy
from apportion.core.strategies.layers.share import Share, fill, set_aside, share_out, text_of
from apportion.core.strategies.layers.verdicts import group_bounds, verdicts_of, verdicts_on_nothing
from apportion.core.strategy_api.levers import Meaning
from apportion.core.strategy_api.strategy import WithoutCandidates
from apportion.core.strategy_api.task import OwnPart, SessionPart, Task
from apportion.core.strategy_api.verdict import Verdicts
from apportion.core.text.tokens import TokenCounter
from apportion.core.text.variant_counter import Alike


class LayersPart(OwnPart, frozen=True):
    """The layers of a request."""

    layers: Mapping[str, LayerContent]


class LayersStrategy(WithoutCandidates):
    """The strategy; see the module."""

    name = "layers"
    policy_type = LayersPolicy
    reads: ClassVar = frozenset({"layers"})
    needs: ClassVar = frozenset({"layers"})
    meanings: ClassVar[Mapping[Reason, Meaning]] = {}

    def read_own(self, request: ContextRequest, session: SessionPart) -> LayersPart:  # noqa: ARG002 - the protocol's
        """Read the layers."""
        assert request.layers is not UNSET, "a request without layers is refused"
        return LayersPart(request.layers)

    def compose(self, task: Task[LayersPolicy, LayersPart]) -> Verdicts:
        """Share the limit out, and cut each layer to what it has."""
        counter = Alike(task.counter)  # a layer is counted alone, after a blank line, and within the text
        shares = _open(task, counter)
        if not task.limit_tokens:
            return _nothing(task, shares, None)
        set_aside(shares, counter)
        share_out(shares, task.limit_tokens)
        least_tokens = counter.count(text_of(shares))
        if least_tokens > task.limit_tokens:
            return _nothing(task, shares, Margin(least_tokens, task.limit_tokens))
        fill(shares, task.limit_tokens, task.counter)  # which counts what comes out itself
        verdicts, text = verdicts_of(shares, counter), text_of(shares)
        used_tokens = counter.count(text)
        return Verdicts(
            verdicts=verdicts,
            groups=group_bounds(shares, counter, standing=True),
            standing=[verdict for verdict in verdicts if verdict.fidelity is not None],
            text=text,
            estimated_tokens=used_tokens,
            used_tokens=used_tokens,
            reserved_tokens=least_tokens,
        )


def _nothing(
    task: Task[LayersPolicy, LayersPart], shares: Sequence[Share], margin: Margin | None
) -> Verdicts:
    """Return the verdicts where nothing stands: what is set aside alone passes the limit, by the margin."""
    return Verdicts(
        verdicts=verdicts_on_nothing(shares, margin),
        groups=group_bounds(shares, task.counter, standing=False),
        infeasible=margin is not None,
    )


def _open(task: Task[LayersPolicy, LayersPart], counter: TokenCounter) -> list[Share]:
    """Return a share for every layer of the policy, in order; those that are not given are empty."""
    given = task.own.layers
    for index, name in enumerate(given):
        if name not in task.policy.layers:
            message = unknown("layer", task.policy.name, [name for name, _ in task.policy.in_order])
            raise EventError(ErrorCode.UNKNOWN_LAYER, message, f"$.layers[{index}]")

    def count_many(entries: Sequence[str]) -> list[int]:
        return counter.count_many(entries) if task.limit_tokens else [0] * len(entries)

    return [
        Share(Layer(name, layer.heading, given.get(name, ""), count_many), layer.share_percent, name in given)
        for name, layer in task.policy.in_order
    ]
