"""The demo's lines and sums, for consoles of any width."""

import json
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console, RenderableType

from apportion.core.errors import ErrorCode
from apportion.core.results import ContextDeadLetter, ContextDecision, Failure, Prefix
from apportion.demo import view
from apportion.demo.tally import Tally
from apportion.stream.client import Reply

EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples"
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


@pytest.mark.parametrize("columns", [60, 79, 80, 130, 200])
def test_no_number_is_cut_on_a_console_of_any_usual_width(columns: int) -> None:
    used, limit = 123_456, 999_999
    wide = msgspec.structs.replace(
        DECISION, tokens=msgspec.structs.replace(DECISION.tokens, used=used // 100, limit=limit // 100)
    )
    (line,) = printed(view.line(wide, 0.0125, view.layout(columns)), columns).splitlines()
    assert "1,234/9,999" in line
    assert line.endswith("12" if columns < 130 else "12.5")
    (heading,) = printed(view.heading(view.layout(columns)), columns).splitlines()
    assert heading.endswith("ms")
    assert "…" not in heading


def test_the_first_context_is_told_by_lanes_then_by_its_first_and_last_lines() -> None:
    answer = json.loads(COMPOSED)
    answer["text"] = "\n\n".join(f"line {number}" for number in range(20))
    context = view.excerpt(json.dumps(answer).encode())
    assert context is not None
    shown = printed(context)
    lanes = list(dict.fromkeys(item["group"] for item in answer["items"]))
    assert [line.split()[1] for line in shown.splitlines()[1 : 1 + len(lanes)]] == lanes
    assert f"{answer['tokens']['used']:,} of {answer['tokens']['limit']:,} tokens" in shown
    assert [line.split("line ")[1].split()[0] for line in shown.splitlines() if "│ line " in line] == [
        *("0", "1", "2", "3"),
        *("16", "17", "18", "19"),
    ]
    assert "12 more lines" in shown


def test_an_answer_without_a_text_has_no_excerpt() -> None:
    assert view.excerpt((EXAMPLES / "context-composed" / "lanes-disabled.json").read_bytes()) is None


def test_an_escape_sequence_of_a_client_is_not_printed() -> None:
    answer = json.loads(COMPOSED)
    answer["text"] = "\x1b[2J and \x07"
    context = view.excerpt(json.dumps(answer).encode())
    assert context is not None
    failure = Failure(code=ErrorCode.UNKNOWN_LANE, message="\x1b[2J", pointer="$.\x07")
    for shown in (printed(context), printed(view.refusal(failure))):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_an_id_that_looks_like_markup_stands_as_it_is() -> None:
    named = msgspec.structs.replace(DECISION, session_id="[/b]")
    assert printed(view.line(named, 0.0, view.layout(200))).startswith("[/b] ")


def test_a_run_lasts_from_its_first_event_to_its_last_answer() -> None:
    tally = Tally()
    tally.add(Reply(0, 0.5, COMPOSED, DECISION), 100.0)
    tally.add(Reply(1, 0.1, dead_letter=LETTER), 103.0)
    total = tally.summary()
    assert total.duration_s == 3.5
    assert (total.decisions, total.dead_letters) == (1, 1)
    assert total.latencies_s == {50: 0.1, 95: 0.5, 99: 0.5}


def test_a_summary_without_a_decision_tells_of_dead_letters_alone() -> None:
    tally = Tally()
    tally.add(Reply(0, 0.5, dead_letter=LETTER), 100.0)
    shown = printed(view.summary(tally.summary()))
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["dead letters", "latency"]


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


def test_what_is_held_is_read_at_a_tenth_and_was_written_the_turn_before_at_a_quarter_more() -> None:
    tally = Tally()
    for answer in (holding("a", 0), holding("b", 0), holding("a", 800), holding("a", 600)):
        tally.add(answer, 1.0)
    total = tally.summary()
    assert total.held == pytest.approx(1_400 / 4_000)
    assert total.input_price == pytest.approx((4_000 - 0.9 * 1_400 + 0.25 * 800) / 4_000)
    assert "prefix" in printed(view.summary(total))
    assert "held: 35% of tokens; input price 0.73 of uncached" in printed(view.summary(total))


def test_a_cold_cache_serves_nothing_of_what_is_held() -> None:
    tally = Tally()
    for answer in (holding("a", 0), holding("a", 500, cold=True), holding("a", 400)):
        tally.add(answer, 1.0)
    total = tally.summary()
    assert total.held == pytest.approx(900 / 3_000)
    assert total.input_price == pytest.approx((3_000 - 0.9 * 400 + 0.25 * 400) / 3_000)


def test_a_policy_that_holds_nothing_has_no_line_of_it() -> None:
    tally = Tally()
    tally.add(Reply(0, 0.5, COMPOSED, DECISION), 100.0)
    assert tally.summary().input_price == 1
    assert "prefix" not in printed(view.summary(tally.summary()))
