"""Price of a session's input with a provider's cache.

Prices are in tokens at the full price: a token read from the cache costs 0.1, one written to it 1.25, another
1. An entry lives for 300 s after it is written or read.
"""

from collections.abc import Sequence

from benchmarks.value.playing import COUNTER, Step, shared

READ, WRITE = 0.1, 1.25
TTL_S = 300.0


def share_held(steps: Sequence[Step]) -> float:
    """Return the share of the tokens, but for the first turn's, that begin their text as the one before."""
    held = sum(_tokens(step.text[:end]) for step, end in zip(steps[1:], shared(steps)[1:], strict=True))
    return held / (sum(step.used_tokens for step in steps[1:]) or 1)


def price_with_marks(steps: Sequence[Step], *, looks_back: bool) -> float:
    """Return the price with the breakpoints that were emitted; all up to the last of them is written.

    Read is up to the last place at which an equal beginning was written, or read, within the ttl. A provider
    that `looks_back` finds every such place itself; else it looks at the breakpoints of the request alone.
    """
    known: dict[str, float] = {}
    paid = total = 0.0
    for step in steps:
        known = {text: at_s for text, at_s in known.items() if step.at_s - at_s <= TTL_S}
        ends = {len(text) for text in known} if looks_back else step.breakpoints
        read = max((end for end in ends if step.text[:end] in known), default=0)
        paid += _price(step, read, max(step.breakpoints, default=0))
        total += step.used_tokens
        known.update({step.text[:end]: step.at_s for end in (*step.breakpoints, read) if end})
    return paid / (total or 1)


def price_at_best(steps: Sequence[Step]) -> float:
    """Return the lowest price with one breakpoint a turn, if all later texts are known.

    A breakpoint is at the next text's first difference, or absent; the cheapest of all choices counts.
    """
    common = [*shared(steps)[1:], 0]
    paid = {0: 0.0}
    for place, step in enumerate(steps):
        warm = place > 0 and step.at_s - steps[place - 1].at_s <= TTL_S
        after: dict[int, float] = {}
        for written, so_far in paid.items():
            read = written if warm and step.text[:written] == steps[place - 1].text[:written] else 0
            for end in {0, common[place]}:
                price = so_far + _price(step, read, end)
                after[end] = min(price, after.get(end, price))
        paid = after
    return min(paid.values()) / (sum(step.used_tokens for step in steps) or 1)


def _price(step: Step, read: int, written: int) -> float:
    """Return the price of a text that is read up to one position and written up to another."""
    read_tokens, written_tokens = _tokens(step.text[:read]), _tokens(step.text[: max(read, written)])
    fresh = step.used_tokens - written_tokens
    return READ * read_tokens + WRITE * (written_tokens - read_tokens) + fresh


_counts: dict[str, int] = {}


def _tokens(text: str) -> int:
    """Return a beginning's tokens; each is counted once."""
    if text not in _counts:
        _counts[text] = COUNTER.count(text)
    return _counts[text]
