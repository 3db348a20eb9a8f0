"""Choice among the tools of 19 public MCP servers: needed tools that are sent, and changes of the set."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from apportion import COUNTERS
from apportion.core.strategies.request import tools as choosing
from benchmarks.measure import best_s, micro, table
from benchmarks.tools.choices import LIMIT_TOKENS, Choice, make_baselines, make_engine
from benchmarks.tools.data import Question, make_sessions, read_questions, read_tools

COUNTER = COUNTERS["o200k_base"]
_RESULT = "The result has 3 entries; the first is the right one."


def main() -> None:
    """Measure single questions, simulated sessions, and the time of a choice."""
    definitions = read_tools()
    tools = choosing.read_tools(definitions)
    for tool, tokens in zip(tools, COUNTER.count_many([tool.json for tool in tools]), strict=True):
        tool.cost = tokens
    choices: dict[str, Callable[[], Choice]] = {"policy request": partial(make_engine, definitions)}
    choices |= {name: partial(_same, choice) for name, choice in make_baselines(tools).items()}
    title = f"{len(tools)} tools, of which {LIMIT_TOKENS:,} tokens are sent"
    table(title, ("tokens of all tools, o200k_base", f"{sum(tool.cost for tool in tools):,}"))
    for split in ("dev", "kept"):
        questions = read_questions(split)
        sessions = make_sessions(questions)
        title = f"all needed tools are sent, questions of `{split}`"
        table(title, *[(name, _served(make, questions)) for name, make in choices.items()])
        for name, make in choices.items():
            played = [_play(make(), turns) for turns in sessions]
            table(
                f"{len(sessions)} sessions, questions of `{split}`, {name}",
                (
                    "the set changes after a session's first turn",
                    _share([c for p in played for c, _ in p[1:]]),
                ),
                ("all needed tools are sent", _share([served for p in played for _, served in p])),
            )
    text = read_questions("kept")[0].text
    (took_s,) = best_s(lambda: _choose(tools, text))
    table("time", ("one choice among all tools", micro(took_s)))


def _same(choice: Choice) -> Choice:
    return choice


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values)} of {len(values)}, {sum(values) / len(values):.1%}"


def _served(make: Callable[[], Choice], questions: Sequence[Question]) -> str:
    return _share([question.is_served_by(make()(question.text, ())) for question in questions])


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
    choosing.choose_tools(tools, text, LIMIT_TOKENS, 0, b"")


if __name__ == "__main__":
    main()
