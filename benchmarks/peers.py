"""Against the peers that a user would pick, with the same counter and the same input.

`promptbudget` for lanes, LangChain's `trim_messages` for histories. Needs the extra `benchmarks`.
"""

import json
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from promptbudget import Item, Section, pack

from apportion.core.bounds import Bounds
from apportion.core.compose import compose
from apportion.core.session import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.wire import decode
from apportion.counters import exact_counter
from benchmarks.corpus import ENGINE, lanes_candidates, pieces, request
from benchmarks.measure import best_s, micro, table

COUNT: Callable[[str], int] = exact_counter("o200k_base").count
TOTAL = 8_000
LANES = {
    "policy": 500,
    "rules": 2_000,
    "local": 3_000,
    "structure": 1_500,
    "retrieved": 2_000,
    "history": 1_000,
}


def main() -> None:
    """Compare speed, and who stays within the budget."""
    _lanes()
    _histories()


def _lanes() -> None:
    candidates = lanes_candidates(300)
    sections = [
        Section(
            name,
            [Item(one["content"], score=one["relevance"]) for one in candidates if one["lane"] == name],
            priority=10 - place,
            max_tokens=most,
            strategy="lowest_score_first",
        )
        for place, (name, most) in enumerate(LANES.items())
    ]
    policy: Any = parse_policy({"name": "x", "version": "1", "strategy": "lanes", "budget_tokens": TOTAL})
    line = json.dumps(_raw(candidates=candidates)).encode()

    def ours() -> str:
        event: Any = decode(line, Bounds())
        return compose(event, EMPTY, policy, ENGINE).composed.text or ""

    def theirs() -> str:
        return str(pack(sections, budget=TOTAL, tokenizer=COUNT).text)

    ours_s, theirs_s = best_s(ours, theirs, rounds=5)
    table(
        "300 candidates in six lanes, 8,000 tokens, o200k_base; ours with decoding and the decision",
        ("Apportion", f"{micro(ours_s)}, {COUNT(ours()):,} tokens"),
        ("promptbudget", f"{micro(theirs_s)}, {COUNT(theirs()):,} tokens"),
        ("promptbudget / Apportion", f"{theirs_s / ours_s:.1f}"),
    )


def _histories() -> None:
    texts = list(pieces(1_000, 600))
    roles = ("user", "assistant")
    history = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    policy: Any = parse_policy(
        {"name": "x", "version": "1", "strategy": "conversation", "counter": "o200k_base"}
    )
    conversation = {"system_prompt": "Be brief.", "messages": history, "new_message": "What now?"}
    asked = request(conversation=conversation, budget_tokens=20_000)
    limit = 10_000  # half of the total is the messages' part
    messages: list[BaseMessage] = [
        (HumanMessage, AIMessage)[n % 2](content=text) for n, text in enumerate(texts)
    ]

    def cost(those: list[BaseMessage]) -> int:
        return sum(COUNT(str(one.content)) + 4 for one in those)

    def theirs() -> Any:
        return trim_messages(messages, max_tokens=limit, token_counter=cost, strategy="last")

    ours_s, theirs_s = best_s(lambda: compose(asked, EMPTY, policy, ENGINE), theirs, rounds=5)
    used = compose(asked, EMPTY, policy, ENGINE).composed.tokens.used
    table(
        "a history of 1,000 messages, 10,000 tokens, o200k_base; ours with the decision",
        ("Apportion", f"{micro(ours_s)}, {used:,} tokens"),
        ("trim_messages", f"{micro(theirs_s)}, {cost(theirs()):,} tokens"),
        ("trim_messages / Apportion", f"{theirs_s / ours_s:.1f}"),
    )


def _raw(**fields: Any) -> dict[str, Any]:
    common = {"request_id": "r", "session_id": "s", "requested_at": "2026-03-01T12:00:00Z"}
    return {"type": "context-request", **common, **fields}


if __name__ == "__main__":
    main()
