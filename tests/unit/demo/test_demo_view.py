"""The demo's lines and sums, for consoles of any width."""

import json
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET, UnsetType
from rich.console import Console, RenderableType

from apportion.core.errors import ErrorCode
from apportion.core.results import (
    ChatWindow,
    ContextDeadLetter,
    ContextDecision,
    Failure,
    Prefix,
    ToolResults,
    WindowBreak,
)
from apportion.demo.demo import view
from apportion.demo.demo.tally import DemoTally
from apportion.shell.kafka.client import Reply

EXAMPLES = Path(__file__).parents[3] / "schemas" / "examples"
DECISION = msgspec.json.decode(
    (EXAMPLES / "context-decision" / "lanes.json").read_bytes(), type=ContextDecision
)
COMPOSED = (EXAMPLES / "context-composed" / "lanes.json").read_bytes()
LETTER = msgspec.json.decode(
    (EXAMPLES / "context-dead-letter" / "missing-field.json").read_bytes(), type=ContextDeadLetter
)


def printed(renderable: RenderableType, columns: int = 200) -> str:
    console = Console(file=StringIO(), width=columns, highlight=False)
    console.print(renderable)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("columns", [60, 79, 80, 118, 120, 200])
def test_no_number_is_cut_on_a_console_of_any_usual_width(columns: int) -> None:
    tokens = msgspec.structs.replace(DECISION.tokens, used=1_234, limit=12_000)
    wide = msgspec.structs.replace(DECISION, tokens=tokens)
    (line,) = printed(view.line(wide, 4.0125, view.layout(columns)), columns).splitlines()
    assert "1,234/12,000" in line
    assert line.endswith("4012")
    (heading,) = printed(view.heading(view.layout(columns)), columns).splitlines()
    assert heading.endswith("ms")
    assert "…" not in heading


def test_the_first_context_is_shown_by_lanes_then_from_its_first_change() -> None:
    answer = json.loads(COMPOSED)
    lines = [f"line {number}" for number in range(20)]
    answer["text"] = "\n\n".join([*lines[:4], "@@ -1 +1 @@", *lines[4:]])
    context = view.excerpt(json.dumps(answer).encode(), 80)
    assert context is not None
    shown = printed(context)
    lanes = list(dict.fromkeys(item["group"] for item in answer["items"]))
    assert [line.split()[1] for line in shown.splitlines()[1 : 1 + len(lanes)]] == lanes
    assert f"{answer['tokens']['used']:,} of {answer['tokens']['limit']:,} tokens" in shown
    told = [line.strip("│ ") for line in shown.splitlines()[2 + len(lanes) : -1]]
    assert told == ["… 4 lines …", "@@ -1 +1 @@", *lines[4:9], "… 11 more lines …"]


def test_a_context_without_a_change_is_shown_whole() -> None:
    answer = json.loads(COMPOSED) | {"text": "one\ntwo"}
    context = view.excerpt(json.dumps(answer).encode(), 80)
    assert context is not None
    assert [line.strip("│ ") for line in printed(context).splitlines()[-3:-1]] == ["one", "two"]


def test_an_answer_without_a_text_has_no_excerpt() -> None:
    disabled = (EXAMPLES / "context-composed" / "lanes-disabled.json").read_bytes()
    assert view.excerpt(disabled, 80) is None


def test_an_escape_sequence_of_a_client_is_not_printed() -> None:
    answer = json.loads(COMPOSED)
    answer["text"] = "\x1b[2J and \x07"
    context = view.excerpt(json.dumps(answer).encode(), 80)
    assert context is not None
    failure = Failure(code=ErrorCode.UNKNOWN_LANE, message="\x1b[2J", pointer="$.\x07")
    for shown in (printed(context), printed(view.refusal(failure))):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_an_id_that_looks_like_markup_is_printed_literally() -> None:
    named = msgspec.structs.replace(DECISION, session_id="[/b]")
    assert printed(view.line(named, 0.0, view.layout(200))).startswith("[/b] ")


def test_answers_delayed_by_a_kill_count_but_not_for_latency() -> None:
    tally = DemoTally()
    tally.add(Reply(0, 0.5, COMPOSED, DECISION))
    tally.add(Reply(1, 9.0, COMPOSED, DECISION), held_up=True)
    tally.add(Reply(2, 0.1, dead_letter=LETTER))
    assert (tally.decisions, tally.dead_letters) == (2, 1)
    assert tally.latencies_s == {50: 0.1, 95: 0.5, 99: 0.5}


def test_a_summary_without_decisions_shows_only_dead_letters() -> None:
    tally = DemoTally()
    tally.add(Reply(0, 0.5, dead_letter=LETTER))
    shown = printed(view.summary(tally))
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["dead letters", "latency"]


def charged(before: int, after: int, prompts: int) -> Reply:
    """Return an answer of 100 tokens, with its session's ledger before and after."""
    ledger = DECISION.session.before
    session = msgspec.structs.replace(
        DECISION.session,
        before=msgspec.structs.replace(ledger, prompts=prompts, spent_tokens=before),
        after=msgspec.structs.replace(ledger, prompts=prompts + 1, spent_tokens=after),
    )
    tokens = msgspec.structs.replace(DECISION.tokens, used=100)
    return Reply(0, 0.1, COMPOSED, msgspec.structs.replace(DECISION, session=session, tokens=tokens))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([charged(0, 100, 0), charged(100, 200, 1)], (200, 200)),
        ([charged(0, 100, 0), charged(200, 300, 2)], (200, 300)),
        ([charged(0, 100, 0), charged(0, 100, 0)], (200, 200)),
    ],
    ids=["each once", "one twice", "begun afresh"],
)
def test_the_charged_tokens_are_the_growth_of_the_ledgers(
    answers: list[Reply], told: tuple[int, int]
) -> None:
    tally = DemoTally()
    for answer in answers:
        tally.add(answer)
    assert (tally.emitted, tally.charged) == told
    assert f"{told[0]} tokens emitted, {told[1]} charged" in printed(view.summary(tally))


def holding(session: str, tokens: int, *, used: int = 1_000, cold: bool = False) -> Reply:
    """Return the answer to a request of a session with so many tokens of its text before."""
    prefix = Prefix(
        previous_items=9,
        held_items=5,
        prefix_tokens=tokens,
        cold=cold,
        broken=None,
        held_only=(),
        displaced=(),
        value=1,
        value_without=1,
        tried=1,
    )
    used_tokens = msgspec.structs.replace(DECISION.tokens, used=used)
    decision = msgspec.structs.replace(DECISION, session_id=session, prefix=prefix, tokens=used_tokens)
    return Reply(0, 0.1, COMPOSED, decision)


def test_held_tokens_cost_a_tenth_and_were_written_at_a_quarter_more() -> None:
    tally = DemoTally()
    for answer in (holding("a", 0), holding("b", 0), holding("a", 800), holding("a", 600)):
        tally.add(answer)
    sums = tally.policies[DECISION.policy.name]
    assert sums.held == 1_400
    assert sums.saved == pytest.approx(0.9 * 1_400 - 0.25 * 800)
    shown = printed(view.summary(tally))
    assert f"{DECISION.policy.name} 35% of the tokens" in shown
    assert f"{DECISION.policy.name} 26% of what the input costs" in shown


def test_a_cold_cache_serves_no_held_tokens() -> None:
    tally = DemoTally()
    for answer in (holding("a", 0), holding("a", 500, cold=True), holding("a", 400)):
        tally.add(answer)
    sums = tally.policies[DECISION.policy.name]
    assert sums.held == 900
    assert sums.saved == pytest.approx(0.9 * 400 - 0.25 * 400)


def chatting(tokens: int, broken: WindowBreak | UnsetType = UNSET) -> Reply:
    """Return the answer to a request of a chat with so many tokens of its text before."""
    window = ChatWindow(tokens=tokens, share=0, cut=0, since=1, broken=broken)
    decision = msgspec.structs.replace(
        DECISION,
        window=window,
        tool_results=ToolResults(cleared=2, freed_tokens=70),
        tokens=msgspec.structs.replace(DECISION.tokens, used=1_000),
    )
    return Reply(0, 0.1, COMPOSED, decision)


def test_a_chat_holds_and_clears_too() -> None:
    tally = DemoTally()
    for answer in (chatting(0), chatting(900), chatting(900, WindowBreak.TTL_EXPIRED)):
        tally.add(answer)
    sums = tally.policies[DECISION.policy.name]
    assert sums.held == 1_800
    assert sums.saved == pytest.approx(0.9 * 900 - 0.25 * 900)
    assert "210 tokens of old tool results" in printed(view.summary(tally))


def test_a_policy_that_holds_nothing_has_no_line_of_it() -> None:
    tally = DemoTally()
    tally.add(Reply(0, 0.5, COMPOSED, DECISION))
    assert "held" not in printed(view.summary(tally))
