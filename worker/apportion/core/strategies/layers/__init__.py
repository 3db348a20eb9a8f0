"""Strategy `layers`: a limit shared by a few long layers.

`docs/strategies/layers.md` has the rules, from the context budget specification. More exactly:

- The minimum of a layer also has the omission markers, or is the whole layer if that costs no more.
- If omitting an entry makes the layer no shorter in code points, it is omitted only together with others, or
  with all others if that costs fewer tokens. See `form`.
- The policy's heading of a layer is shown with any part of the layer, and is reserved with the section
  headings. Free text without room loses its heading too. A section without entries shows its heading.
- A layer is `truncated` if any part was cut; `no_room` if free text (or a preamble alone) has no room for
  the marker and one code point; `no_content` if it is empty. So is an empty entry, which no marker counts.
- Rank: layers by priority, each before its entries; entries in their order. A cut has the margin of the
  layer's next entry or code point: the tokens it would add, and the tokens left.
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
from apportion.core.strategies.layers.verdicts import group_bounds, verdicts_of
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
    """The strategy `layers`; the module's docstring has its rules."""

    name = "layers"
    policy_type = LayersPolicy
    reads: ClassVar = frozenset({"layers"})
    needs: ClassVar = frozenset({"layers"})
    meanings: ClassVar[Mapping[Reason, Meaning]] = {}

    def read_own(self, request: ContextRequest, session: SessionPart) -> LayersPart:  # noqa: ARG002 - the protocol's
        """Return the layers."""
        assert request.layers is not UNSET, "a request without layers is refused"
        return LayersPart(request.layers)

    def compose(self, task: Task[LayersPolicy, LayersPart]) -> Verdicts:
        """Share the limit out, and cut each layer; raise EventError for a layer that the policy lacks."""
        counter = Alike(task.counter)  # a layer is counted alone, after a blank line, and in the text
        shares = _open(task, counter)
        if not task.limit_tokens:
            return _nothing(task, shares, None)
        set_aside(shares, counter)
        share_out(shares, task.limit_tokens)
        least_tokens = counter.count(text_of(shares))
        if least_tokens > task.limit_tokens:
            return _nothing(task, shares, Margin(least_tokens, task.limit_tokens))
        fill(shares, task.limit_tokens, task.counter)
        verdicts, text = verdicts_of(shares, counter, standing=True), text_of(shares)
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
    """Return the verdicts without a text: the limit is 0 (no margin), or the minimums exceed it."""
    return Verdicts(
        verdicts=verdicts_of(shares, task.counter, margin, standing=False),
        groups=group_bounds(shares, task.counter, standing=False),
        infeasible=margin is not None,
    )


def _open(task: Task[LayersPolicy, LayersPart], counter: TokenCounter) -> list[Share]:
    """Return a share for each layer of the policy, by priority; a layer that was not given is empty."""
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
