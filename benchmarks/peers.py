"""Comparison with the floor and with peers that a user would choose: same events, same counter, one process.

The floor is the work that every composer must do: decode the event with msgspec, count every candidate once
with the fastest installed counter that is exact on these texts, and encode the selection. It decodes into its
own structs, so a field or a check that we add slows us, but not the floor.

Ours decodes with all bounds, composes, and encodes the composed event and the decision, as the worker does.
Its memory lives as long as a worker's. The peers get the floor's decoder, and encode their results.
`promptbudget` packs lanes and chats, LangChain's `trim_messages` trims histories; neither encodes decisions.

Each contender has its own new texts in each round, so no cache of answers and no branch prediction helps. The
contenders take turns, and the first one changes. Figures are ratios to the floor of the same round: the
median and the quartiles.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from random import Random
from statistics import median
from typing import Annotated, Any

import msgspec
import typer
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from msgspec import Struct
from promptbudget import Item, Section, pack, pack_chat

from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.wire import codec
from apportion.engine.counters.bpe import PATTERNS, load_tokenizer
from benchmarks.corpus import ENGINE, lanes_candidates, pieces
from benchmarks.measure import micro, seconds_in_turn, spread

LANES_TOKENS = 8_000
LANES_MAX_TOKENS = {
    "policy": 500,
    "rules": 2_000,
    "local": 3_000,
    "structure": 1_500,
    "retrieved": 2_000,
    "history": 1_000,
}
HISTORY_TOKENS = 50_000
OVERHEAD_TOKENS = 4
CANDIDATE_CHARACTERS = 2_720
"""About 690 tokens of o200k_base."""
MESSAGE_CHARACTERS = 600
SMALL_CHARACTERS = 40
_ROLES = ("user", "assistant")
_numbers = count()


class _Candidate(Struct):
    id: str
    content: str
    lane: str
    kind: str
    recency_bucket: int
    relevance: float
    specificity: float
    risk_alignment: float


class _Conversation(Struct):
    system_prompt: str
    messages: list[dict[str, Any]]
    new_message: str


class _Request(Struct):
    request_id: str
    session_id: str
    requested_at: str
    candidates: list[_Candidate] = []
    conversation: _Conversation | None = None


_decode = msgspec.json.Decoder(_Request).decode
_encode = msgspec.json.Encoder().encode

Contender = Callable[[bytes], object]
"""A function from an event's bytes to the bytes of its selection."""


class Row(Struct, frozen=True):
    """A row of the table: a maker of events, and the contenders.

    It also has the ratios of the day on which the goal was set: ours, the goal, the peer's.
    """

    name: str
    event: Callable[[], bytes]
    contenders: Mapping[str, Contender]
    at_first: float
    goal: float
    promptbudget_at_first: float


class SmallRow(Struct, frozen=True):
    """A row in microseconds: one candidate, and the goal for all that an answer takes."""

    name: str
    event: Callable[[], bytes]
    answer: Contender
    at_first: str
    goal_us: int


def rows() -> Iterable[Row]:
    """Yield the rows of the table, in its order."""
    for number, counter, at_first, goal, theirs in (
        (20, "chars4", 5.7, 3, 2.9),
        (20, "o200k_base", 10.8, 3.5, 2.1),
        (300, "chars4", 6.0, 2.5, 2.8),
        (300, "o200k_base", 8.0, 2.5, 2.1),
    ):
        name = f"lanes, {number} candidates, {counter}"
        yield Row(name, lambda n=number: _lanes(n), _lanes_contenders(counter), at_first, goal, theirs)  # type: ignore[misc] # mypy infers no lambda with a default
    for number, counter, at_first, goal, theirs in (
        (50, "chars4", 6.6, 3, 5.8),
        (500, "chars4", 5.7, 2.5, 5.9),
        (50, "o200k_base", 6.7, 2.5, 3.4),
        (500, "o200k_base", 6.6, 2.2, 3.4),
    ):
        name = f"conversation, {number} messages, {counter}"
        yield Row(name, lambda n=number: _chat(n), _chat_contenders(counter), at_first, goal, theirs)  # type: ignore[misc] # likewise


def small_rows() -> Iterable[SmallRow]:
    """Yield the rows in microseconds."""
    yield SmallRow("one small candidate, chars4", _small, _ours("lanes", "chars4"), "60-107", 35)
    known = lanes_candidates(1, characters=SMALL_CHARACTERS)[0]["content"]
    answer = _ours("lanes", "o200k_base")
    answer(_small(known))
    yield SmallRow("one small candidate, its count known", lambda: _small(known), answer, "60-107", 35)


def main(
    rounds: Annotated[int, typer.Option(min=3, help="Of each row.")] = 31,
    only: Annotated[str, typer.Option(help="Measure the rows whose name holds this.")] = "",
) -> None:
    """Print the table."""
    print(
        "\nratios to the floor (decode, count once, encode): median (quartiles); texts new in every round\n"
    )
    _line("", "floor", "Apportion", "goal", "promptbudget", "trim_messages", "at first: ours / promptbudget")
    _line(*["---"] * 7)
    for row in rows():
        if only in row.name:
            _line(row.name, *_figures(row, rounds))
    print()
    _line("in all, µs: median (quartiles)", "", "Apportion", "goal", "", "", "at first")
    _line(*["---"] * 7)
    for small in small_rows():
        if only in small.name:
            [took_s] = seconds_in_turn([small.answer], [[small.event()] for _ in range(rounds * 30)])
            low, middle, high = spread([seconds * 1e6 for seconds in took_s])
            figure = f"{middle:.0f} ({low:.0f}-{high:.0f})"
            _line(small.name, "", figure, f"{small.goal_us}", "", "", small.at_first)


def _line(*cells: str) -> None:
    """Print a row of a table as Markdown has it, so that documents can take it over."""
    widths = (40, 9, 16, 4, 16, 16, 10)
    print(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))} |", flush=True
    )


def _figures(row: Row, rounds: int) -> tuple[str, ...]:
    names, contenders = list(row.contenders), list(row.contenders.values())
    events = [[row.event() for _ in contenders] for _ in range(rounds)]
    took_s = dict(zip(names, seconds_in_turn(contenders, events), strict=True))
    floor_s = took_s["floor"]

    def ratio(name: str) -> str:
        if name not in took_s:
            return ""
        low, middle, high = spread([ours / floor for ours, floor in zip(took_s[name], floor_s, strict=True)])
        return f"{middle:.1f} ({low:.1f}-{high:.1f})"

    at_first = f"{row.at_first} / {row.promptbudget_at_first}"
    floor = micro(median(floor_s))
    return (floor, ratio("Apportion"), f"{row.goal}", ratio("promptbudget"), ratio("trim_messages"), at_first)


def _lanes_contenders(counter: str) -> dict[str, Contender]:
    tokens, count_all = ENGINE.counters[counter].count, _fastest(counter)

    def floor(value: bytes) -> bytes:
        left, chosen = LANES_TOKENS, []
        candidates = _decode(value).candidates
        costs = count_all([candidate.content for candidate in candidates])
        for candidate, cost in zip(candidates, costs, strict=True):
            if cost <= left:
                left -= cost
                chosen.append(candidate.content)
        return _encode({"text": "\n\n".join(chosen)})

    def promptbudget(value: bytes) -> bytes:
        lanes: dict[str, list[Item]] = {name: [] for name in LANES_MAX_TOKENS}
        for candidate in _decode(value).candidates:
            lanes[candidate.lane].append(Item(candidate.content, score=candidate.relevance))
        sections = [
            Section(name, items, priority=-place, max_tokens=most, strategy="lowest_score_first")
            for place, (name, most) in enumerate(LANES_MAX_TOKENS.items())
            if (items := lanes[name])
        ]
        return _encode({"text": pack(sections, budget=LANES_TOKENS, tokenizer=tokens).text})

    return {"floor": floor, "Apportion": _ours("lanes", counter), "promptbudget": promptbudget}


def _chat_contenders(counter: str) -> dict[str, Contender]:
    tokens, count_all = ENGINE.counters[counter].count, _fastest(counter)

    def floor(value: bytes) -> bytes:
        conversation = _decode(value).conversation
        assert conversation is not None
        left, chosen, ended = HISTORY_TOKENS, [{"role": "user", "content": conversation.new_message}], False
        costs = count_all([message["content"] for message in conversation.messages])
        for message, cost in zip(reversed(conversation.messages), reversed(costs), strict=True):
            left -= cost + OVERHEAD_TOKENS
            ended = ended or left < 0
            if not ended:
                chosen.append(message)
        return _encode({"system_prompt": conversation.system_prompt, "messages": chosen[::-1]})

    def promptbudget(value: bytes) -> bytes:
        conversation = _decode(value).conversation
        assert conversation is not None
        history = [*conversation.messages, {"role": "user", "content": conversation.new_message}]
        packed = pack_chat(
            history,
            budget=HISTORY_TOKENS,
            system=conversation.system_prompt,
            tokenizer=tokens,
            tokens_per_message=OVERHEAD_TOKENS,
        )
        return _encode(packed.to_openai())

    def cost(messages: list[BaseMessage]) -> int:
        return sum(tokens(str(message.content)) + OVERHEAD_TOKENS for message in messages)

    def trim(value: bytes) -> bytes:
        conversation = _decode(value).conversation
        assert conversation is not None
        history: list[BaseMessage] = [
            (HumanMessage if message["role"] == "user" else AIMessage)(content=message["content"])
            for message in conversation.messages
        ]
        history.append(HumanMessage(content=conversation.new_message))
        kept = trim_messages(history, max_tokens=HISTORY_TOKENS, token_counter=cost, strategy="last")
        return _encode([{"role": artifact.type, "content": artifact.content} for artifact in kept])

    ours = _ours("conversation", counter)
    return {"floor": floor, "Apportion": ours, "promptbudget": promptbudget, "trim_messages": trim}


def _fastest(counter: str) -> Callable[[list[str]], list[int]]:
    """Return the fastest count of many texts: without care for long runs, which these texts do not have."""
    if counter in PATTERNS:
        count = load_tokenizer(counter).count
        return lambda texts: [*map(count, texts)]
    return ENGINE.counters[counter].count_many


def _ours(strategy: str, counter: str) -> Contender:
    raw: dict[str, Any] = {"name": "measured", "version": "1", "strategy": strategy, "counter": counter}
    if strategy == "lanes":
        raw["budget_tokens"] = LANES_TOKENS
    composer = Composer(ENGINE, Catalogue([parse_policy(raw)]), "measured", Memory())
    bounds = Bounds()

    def answer(value: bytes) -> tuple[bytes, bytes]:
        _, outcome = composer.handle(codec.decode(value, bounds), EMPTY)
        assert outcome is not None
        return codec.encode(outcome.composed), codec.encode(outcome.decision)

    return answer


def _lanes(number: int) -> bytes:
    return _event(candidates=lanes_candidates(number, seed=next(_numbers), characters=CANDIDATE_CHARACTERS))


def _small(content: str | None = None) -> bytes:
    number = next(_numbers)
    [candidate] = lanes_candidates(1, seed=number, characters=SMALL_CHARACTERS)
    lane = Random(number).choice(list(LANES_MAX_TOKENS))  # noqa: S311 - the same events every run is the point
    return _event(candidates=[candidate | {"lane": lane} | ({} if content is None else {"content": content})])


def _chat(number: int) -> bytes:
    texts = pieces(number, MESSAGE_CHARACTERS, seed=next(_numbers))
    messages = [{"role": _ROLES[place % 2], "content": text} for place, text in enumerate(texts)]
    return _event(
        conversation={"system_prompt": "Be brief.", "messages": messages, "new_message": "What now?"}
    )


def _event(**fields: Any) -> bytes:
    common = {"request_id": f"r{next(_numbers)}", "session_id": "s", "requested_at": "2026-03-01T12:00:00Z"}
    return _encode({"type": "context-request"} | common | fields)


if __name__ == "__main__":
    typer.run(main)
