"""Choice among the tools of 19 public MCP servers: needed tools that are sent, and changes of the set."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.json import encode

from apportion import COUNTERS
from apportion.core.strategies import parse_policy
from apportion.core.strategies.request import tools as choosing
from benchmarks.measure import best_s, micro, table
from benchmarks.tools.choices import LIMIT_TOKENS, Choice, make_baselines, make_engine
from benchmarks.tools.data import (
    Question,
    draw_servers,
    make_sessions,
    read_questions,
    read_sessions,
    read_tools,
    server_of,
)

COUNTER = COUNTERS["o200k_base"]
REPORTED_TOKENS = 67_300
"""The tokens of seven servers in a user's report."""
DRAWS = 5
_RULE = {"counter": "model", "strategy": "request", "version": "1"}
POLICIES = {
    name: parse_policy({**_RULE, "name": name.replace(" ", "-"), "tools": tools})
    for name, tools in {
        "policy request": {"shorten": True, "hold": 300},
        "whole definitions": {"hold": 300},
        "shorter definitions without hold": {"shorten": True},
        "by relevance alone": {},
    }.items()
}
_RESULT = "The result has 3 entries; the first is the right one."


def main() -> None:
    """Measure single questions, sessions, and the time of a choice, among all tools and among fewer."""
    definitions = read_tools()
    tools = choosing.read_tools(definitions)
    for tool, tokens in zip(
        tools, COUNTER.count_many([encode(each).decode() for each in definitions]), strict=True
    ):
        tool.cost = tokens
    by_server = Counter[str]()
    for definition, tool in zip(definitions, tools, strict=True):
        by_server[server_of(definition)] += tool.cost
    title = f"{len(tools)} tools of {len(by_server)} servers, of which {LIMIT_TOKENS:,} tokens are sent"
    table(title, ("tokens of all tools, o200k_base", f"{by_server.total():,}"))
    fewer = draw_servers(by_server, REPORTED_TOKENS, DRAWS)
    reported = f"servers with {REPORTED_TOKENS:,} tokens, {DRAWS} draws"
    for title, drawn in ((reported, fewer), ("all servers", [set(by_server)])):
        offers = [_offer(servers, definitions, tools) for servers in drawn]
        _measure(title, offers)
    text = read_questions("fresh")[0].text
    (took_s,) = best_s(lambda: _choose(tools, text))
    table("time", ("one choice among all tools", micro(took_s)))


class Offer(NamedTuple):
    """Servers, and the choices among their tools by name."""

    servers: set[str]
    choices: dict[str, Callable[[], Choice]]


def _offer(servers: set[str], definitions: Sequence[dict[str, Any]], tools: Sequence[choosing.Tool]) -> Offer:
    own = [index for index, definition in enumerate(definitions) if server_of(definition) in servers]
    offered = [definitions[index] for index in own]
    choices: dict[str, Callable[[], Choice]] = {
        name: partial(make_engine, offered, policy) for name, policy in POLICIES.items()
    }
    baselines = make_baselines([tools[index] for index in own])
    return Offer(servers, choices | {name: partial(_same, choice) for name, choice in baselines.items()})


def _measure(title: str, offers: Sequence[Offer]) -> None:
    for split in ("dev", "kept", "fresh"):
        questions = read_questions(split)
        rows = []
        for name in offers[0].choices:
            served = [
                question.is_served_by(offer.choices[name]()(question.text, ()))
                for offer in offers
                for question in questions
                if question.is_about(offer.servers)
            ]
            rows.append((name, _share(served)))
        table(f"{title}: all needed tools are sent, questions of `{split}`", *rows)
    drawn = make_sessions(read_questions("kept"))
    for kind, sessions in (("drawn of `kept`", drawn), ("written", read_sessions())):
        rows = []
        for name in offers[0].choices:
            played = [
                _play(offer.choices[name](), turns)
                for offer in offers
                for turns in sessions
                if all(question.is_about(offer.servers) for _, question in turns)
            ]
            changes = _share([changed for turns in played for changed, _ in turns[1:]])
            sent = _share([is_served for turns in played for _, is_served in turns])
            rows += [(f"{name}: the set changes", changes), (f"{name}: needed tools are sent", sent)]
        table(f"{title}: sessions, {kind}", *rows)


def _same(choice: Choice) -> Choice:
    return choice


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values)} of {len(values)}, {sum(values) / len(values):.1%}"


def _play(choice: Choice, turns: Sequence[tuple[str, Question]]) -> list[tuple[bool, bool]]:
    """Return for each turn whether the set changed, and whether the needed tools were sent.

    The agent calls the first alternative of each need that was sent. The calls are in the next history.
    """
    messages: list[dict[str, Any]] = []
    before: set[str] | None = None
    played = []
    for text, question in turns:
        names = choice(text, messages)
        played.append((before is not None and names != before, question.is_served_by(names)))
        before = names
        messages.append({"role": "user", "content": text})
        for need in question.needs:
            for name in [name for name in need if name in names][:1]:
                function = {"name": name, "arguments": "{}"}
                call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": _RESULT})
        messages.append({"role": "assistant", "content": _RESULT})
    return played


def _choose(tools: Sequence[choosing.Tool], text: str) -> None:
    for tool in tools:
        tool.bound = None
    choosing.choose_tools(tools, text, choosing.ToolsRoom(LIMIT_TOKENS, 0, 0), b"")


if __name__ == "__main__":
    main()
