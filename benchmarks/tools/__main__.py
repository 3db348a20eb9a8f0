"""Needed tools among the sent ones for single questions, and changes of the set in simulated sessions."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

from apportion import COUNTERS
from apportion.core.strategies.request import tools as choosing
from benchmarks.measure import best_s, micro, table
from benchmarks.tools.choices import LIMIT_TOKENS, Baselines, Choice, Engine
from benchmarks.tools.data import Question, Turn, make_sessions, read_questions, read_tools

_RESULT = "Done. The result has 3 entries; the first is the one that was meant."


def main() -> None:
    """Measure the choice of 20,000 tokens of tools from all servers."""
    options = ArgumentParser(prog="python -m benchmarks.tools", description=__doc__)
    options.add_argument(
        "--misses", action="store_true", help="print the questions for development that miss a tool"
    )
    args = options.parse_args()
    tools = read_tools()
    counter = COUNTERS["o200k_base"]
    read = choosing.read_tools(tools)
    costs = counter.count_many([tool.json for tool in read])
    baselines = Baselines(tools, costs)
    choices: dict[str, Callable[[], Choice]] = {
        "policy request": lambda: Engine(tools),
        "BM25, no held set": lambda: baselines.by_bm25,
        "first tools": lambda: baselines.first,
        "random": lambda: baselines.at_random,
    }
    table(
        f"{len(tools)} tools, {LIMIT_TOKENS:,} tokens of them are sent",
        ("tokens of all tools, o200k_base", f"{sum(costs):,}"),
    )
    for split in ("dev", "kept"):
        questions = read_questions(split)
        rows = [(name, _share(_served(make, questions))) for name, make in choices.items()]
        table(f"all needed tools are sent, {len(questions)} questions ({split})", *rows)
    if args.misses:
        dev = read_questions("dev")
        for question, is_served in zip(dev, _served(choices["policy request"], dev), strict=True):
            if not is_served:
                print(" ", question.text, *question.needs)
    sessions = make_sessions(read_questions("kept"))
    for name, make in choices.items():
        _print_sessions(name, [_play(make(), turns) for turns in sessions])
    _print_time(read, costs)


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values)} of {len(values)}, {sum(values) / len(values):.1%}"


def _served(make: Callable[[], Choice], questions: Sequence[Question]) -> list[bool]:
    return [question.is_served_by(make()(question.text, ())) for question in questions]


def _play(choice: Choice, turns: Sequence[Turn]) -> list[tuple[bool, bool]]:
    """Return for each turn whether the set changed, and whether the needed tools were sent.

    The agent calls each needed tool that was sent. So the calls are in the history of the next turn.
    """
    messages: list[dict[str, Any]] = []
    before: set[str] | None = None
    played = []
    for turn in turns:
        names = choice(turn.text, messages)
        played.append((before is not None and names != before, turn.question.is_served_by(names)))
        before = names
        messages.append({"role": "user", "content": turn.text})
        for need in turn.question.needs:
            called = next((name for name in need if name in names), None)
            if called is not None:
                messages += _call(f"call_{len(messages)}", called)
        messages.append({"role": "assistant", "content": _RESULT})
    return played


def _call(id_: str, name: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps({"limit": 10})}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": id_, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": id_, "content": _RESULT},
    ]


def _print_sessions(name: str, sessions: Sequence[Sequence[tuple[bool, bool]]]) -> None:
    turns = [turn for session in sessions for turn in session]
    later = [turn for session in sessions for turn in session[1:]]
    table(
        f"{len(sessions)} sessions of {len(turns)} turns, kept questions: {name}",
        ("the set changes (turns after the first)", _share([changed for changed, _ in later])),
        ("all needed tools are sent", _share([served for _, served in turns])),
    )


def _print_time(read: Sequence[choosing.Tool], costs: Sequence[int]) -> None:
    text = read_questions("kept")[0].text

    def choose() -> None:
        for tool, tokens in zip(read, costs, strict=True):
            tool.cost, tool.bound = tokens, None
        choosing.choose_tools(read, text, LIMIT_TOKENS, 0, b"")

    (took_s,) = best_s(choose)
    table("time", ("one choice among all tools", micro(took_s)))


if __name__ == "__main__":
    main()
