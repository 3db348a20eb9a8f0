"""Prices of a session's input with a provider's cache, as shares of the price without a cache.

`price` charges by a fake provider. `price_at_best` is a bound: a token that is read costs 0.1, a written
token 1.25, and an entry lives for 300 s after it is written or read.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from msgspec.structs import replace

from apportion import anthropic_body, builtin_models, openai_body
from apportion.core.models import Model
from benchmarks.value.playing import COUNTER, Step, shared
from benchmarks.value.providers import FakeProvider

READ, WRITE = 0.1, 1.25
TTL_S = 300.0
PRICED = {"Claude Opus 5": "claude-opus-5", "GPT-5.6": "gpt-5.6-sol", "GPT-5.4": "gpt-5.4"}
"""A model for each rule of matching: marks, breakpoints, prefix."""


def priced_model(label: str, counter: str) -> Model:
    """Return a row of the built-in table, with another counter: the simulation has texts of its own."""
    row = builtin_models().find(PRICED[label])
    assert row is not None, "the built-in table has these rows"
    return replace(row, counter=counter)


def by_model(policy: str) -> Mapping[str, Any]:
    """Return the tables of a built-in policy, which count by the model."""
    raw = tomllib.loads((files("apportion.engine.policies") / f"{policy}.toml").read_text())
    return {**raw, "counter": "model"}


def share_held(steps: Sequence[Step]) -> float:
    """Return the share of the tokens, but for the first turn's, that begin their text as the one before."""
    held = sum(_tokens(step.text[:end]) for step, end in zip(steps[1:], shared(steps)[1:], strict=True))
    return held / (sum(step.used_tokens for step in steps[1:]) or 1)


def price(steps: Sequence[Step], model: Model) -> float:
    """Return the price by the rules of a model's provider, of the bodies that Apportion writes for it."""
    assert model.cache is not None, "only models with a cache are priced"
    provider = FakeProvider(model.cache, COUNTER.count)
    body = anthropic_body if model.shape == "anthropic" else openai_body
    usages = [provider.send(body(step.composed), step.at_s) for step in steps]
    return sum(usage.price for usage in usages) / (1_000 * sum(usage.tokens for usage in usages) or 1)


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
