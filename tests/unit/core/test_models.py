"""Models: their rows in the table, and compositions that are counted by a request's model."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.asking import asked, calls, conversation_policy, result, says
from support.composing import ENGINE, answer, candidate, entry_of, lanes_policy, request

from apportion.core import image_rules
from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.models import CacheRules, Frame, Model, Models, Scale
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategy_api.policy import PolicyError

FRAME = Frame(request=3, message=7, call=5, result=2)
LARGE = Model(name="large", names=("*large*",), provider="test", counter="chars4", frame=FRAME, table="7")
BYTES = Model(name="bytes", names=("*bytes*",), provider="test", counter="bytes4")
TABLE = Models((LARGE, BYTES))
WITH_TABLE = replace(ENGINE, models=TABLE)
BY_MODEL = lanes_policy(counter="model")
CHAT_BY_MODEL = conversation_policy(1_000, 0, 900, 100, counter="model", message_overhead_tokens=4)
HISTORY = [says("user", "a" * 40), calls("c"), result("c", "r" * 40), says("assistant", "b" * 40)]


def sent(rule: Any = CHAT_BY_MODEL, session: Session = EMPTY, **changes: Any) -> Answered:
    given = {"messages": HISTORY, "new_message": "n" * 8, **changes.pop("conversation", {})}
    return answer(asked(conversation=given, **changes), rule, session, WITH_TABLE)


@pytest.mark.parametrize("name", ["large", "vendor/Large-2@2026", "us.vendor.large-v1:0"])
def test_a_name_is_found_by_the_first_pattern_that_matches_without_case(name: str) -> None:
    assert TABLE.find(name) == LARGE
    assert Models((BYTES, replace(BYTES, name="other"))).find("bytes") == BYTES


def test_a_request_is_counted_by_its_model_and_its_decision_names_the_row() -> None:
    decision = answer(request([candidate("a")], model="vendor/large"), BY_MODEL, engine=WITH_TABLE).decision
    assert (decision.counter.name, decision.model) == ("chars4", LARGE.ref)
    assert LARGE.ref.table == "7"


def test_a_policy_may_name_the_model_of_requests_without_one() -> None:
    rule = lanes_policy(counter="model", model="large")
    assert answer(request([]), rule, engine=WITH_TABLE).decision.counter.name == "chars4"
    assert answer(request([], model="bytes"), rule, engine=WITH_TABLE).decision.counter.name == "bytes4"


@pytest.mark.parametrize(
    ("changes", "rule", "code", "pointer", "says"),
    [
        ({}, BY_MODEL, "missing_field", "$.model", "name it"),
        (
            {"model": "larg"},
            BY_MODEL,
            "unknown_model",
            "$.model",
            "nearest are large; add a row in models_file",
        ),
        (
            {},
            lanes_policy(counter="model", model="none"),
            "unknown_model",
            "$.policy",
            "no row for this model; add a row",
        ),
    ],
)
def test_a_model_that_is_missing_or_unknown_is_refused(
    changes: dict[str, Any], rule: Any, code: str, pointer: str, says: str
) -> None:
    with pytest.raises(EventError, match=says) as refused:
        answer(request([], **changes), rule, engine=WITH_TABLE)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)


def test_a_repeated_request_is_a_duplicate_even_if_its_model_has_no_row_any_more() -> None:
    question = request([candidate("a")], model="large")
    first = answer(question, BY_MODEL, engine=WITH_TABLE)
    again = answer(question, BY_MODEL, first.session, replace(ENGINE, models=Models((BYTES,))))
    assert (again.composed.status, again.decision.duplicate_of) == ("duplicate", first.decision.decision_id)


def test_a_policy_with_a_counter_ignores_the_model_but_records_a_mismatch() -> None:
    plain, other, same, unknown = (
        answer(request([candidate("a")], **model), lanes_policy(), engine=WITH_TABLE)
        for model in ({}, {"model": "bytes"}, {"model": "large"}, {"model": "unknown"})
    )
    assert plain.composed.text == other.composed.text == unknown.composed.text
    assert [each.decision.counter_mismatch for each in (plain, other, same, unknown)] == [
        False,
        True,
        False,
        False,
    ]


def test_a_counter_that_no_policy_can_name_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"expected one of chars4.*, model, or file:NAME"):
        lanes_policy(counter="chars5")


def test_calls_and_thoughts_cost_what_the_model_reads_of_them_and_the_frame() -> None:
    call = {
        "id": "c" * 40,
        "type": "function",
        "function": {"name": "read", "arguments": '{"a":"\\n","b":1}'},
    }
    thought = {"type": "thinking", "thinking": "two\nlines", "signature": "s" * 40}
    history = [
        says("user", "a" * 40),
        {"role": "assistant", "content": [thought], "tool_calls": [call]},
        result("c" * 40, "r" * 40),
    ]
    decided = sent(model="large", conversation={"messages": history})
    read = 'read {"a": "\\n", "b": 1}'
    costs = [entry_of(decided, f"messages/{index}").tokens for index in range(3)]
    frame = FRAME.message
    assert costs == [
        10 + frame,
        -(-len("two\nlines") // 4) + -(-len(read) // 4) + frame + FRAME.call,
        10 + frame + FRAME.result,
    ]
    assert entry_of(decided, "new_message").tokens == 2 + frame + FRAME.request


def test_a_separate_system_prompt_counts_as_one_more_message() -> None:
    rule = conversation_policy(1_000, 100, 800, 100, counter="model")
    without, with_prompt = (
        sent(rule, model="large", conversation={"system_prompt": prompt}).composed.tokens.used
        for prompt in ("", "s" * 40)
    )
    assert with_prompt == without + 10 + FRAME.message


def test_a_model_without_a_known_frame_has_the_overhead_of_the_policy() -> None:
    assert entry_of(sent(model="bytes"), "messages/0").tokens == 10 + 4


def test_an_image_costs_by_the_rule_of_the_model() -> None:
    image = says("user", [{"type": "media", "media": "image", "width": 640, "height": 640}])
    doubled = image_rules.PatchRule(permille=2000)
    rows = (LARGE, *(replace(LARGE, image=rule) for rule in (321, "patches", doubled)))
    costs = [
        entry_of(
            answer(
                asked(conversation={"messages": [image], "new_message": "n"}, model="large"),
                CHAT_BY_MODEL,
                engine=replace(ENGINE, models=Models((row,))),
            ),
            "messages/0",
        ).tokens
        for row in rows
    ]
    assert costs == [tokens + FRAME.message for tokens in (529, 321, 400, 801)]


def test_a_change_of_the_model_begins_a_new_window() -> None:
    rule = conversation_policy(60, 0, 50, 10, counter="model", prefix={"slack": 200})
    first = sent(rule, model="large")
    breaks = []
    for model in ("large", "bytes"):
        window = sent(rule, first.session, model=model, request_id=model).decision.window
        assert window is not UNSET
        breaks.append(window.broken)
    assert breaks == [UNSET, "policy_changed"]


MARKS = CacheRules("marks", least_tokens=30, marks=4, write_permille={"5m": 1_250, "1h": 2_000})


@pytest.mark.parametrize(
    ("rules", "ttl_s", "ttl"),
    [
        (MARKS, 60, "5m"),
        (MARKS, 300, "5m"),
        (MARKS, 301, "1h"),
        (MARKS, 90_000, "1h"),
        (CacheRules("breakpoints", write_permille={"30m": 1_250}), 300, "30m"),
        (CacheRules("prefix"), 300, None),
    ],
)
def test_a_mark_has_the_shortest_ttl_that_lasts_as_long_as_the_policy_says(
    rules: CacheRules, ttl_s: int, ttl: str | None
) -> None:
    assert rules.ttl(ttl_s) == ttl


def test_breakpoints_before_the_least_cached_length_are_left_out() -> None:
    rule = conversation_policy(300, 0, 200, 100, counter="model", prefix={"slack": 200})
    marks = {}
    for least_tokens in (1, 30, 10_000):
        row = replace(LARGE, cache=replace(MARKS, least_tokens=least_tokens))
        engine = replace(ENGINE, models=Models((row,)))
        history = {"messages": HISTORY, "new_message": "n", "pinned": [0], "pinned_in_place": True}
        composed = answer(asked(conversation=history, model="large"), rule, engine=engine).composed
        assert composed.tokens.model == "large"
        marks[least_tokens] = [(point.items, point.ttl) for point in composed.breakpoints or ()]
    assert marks == {1: [(1, "5m"), (4, "5m")], 30: [(4, "5m")], 10_000: []}


SCALED = Models((replace(LARGE, scale=Scale(text=1_500, json=2_000, media=3_000)), BYTES))


def test_a_scale_corrects_each_message_by_its_kind() -> None:
    history = asked(conversation={"messages": HISTORY, "new_message": "n" * 8, "system_prompt": "p" * 40})
    requested = replace(history, model="large")
    plain, scaled = (
        answer(requested, CHAT_BY_MODEL, engine=replace(ENGINE, models=models)).decision
        for models in (TABLE, SCALED)
    )
    fixed = {"new_message": 7 + 3 + 7, "system_prompt": 0, "messages/1": 7 + 5, "messages/2": 7 + 2}
    for before, after in zip(plain.candidates, scaled.candidates, strict=True):
        assert before.tokens
        assert after.tokens
        own = fixed.get(before.id, 7)
        permille = 2_000 if before.id in {"messages/1", "messages/2"} else 1_500
        assert after.tokens == own + -(-(before.tokens - own) * permille // 1_000), before.id
    assert scaled.tokens.used == sum(entry.tokens or 0 for entry in scaled.candidates if entry.fidelity)


def test_a_scale_bounds_a_text_by_the_corrected_count() -> None:
    candidates = [candidate(f"c{number}", 50) for number in range(20)]
    engine, fixed = replace(ENGINE, models=SCALED), 3 + 7
    for limit in (5, fixed, 200, 333, 700, 5_000):
        requested = request(candidates, model="large", budget_tokens=limit)
        outcome = answer(requested, BY_MODEL, engine=engine)
        used, count = (
            outcome.composed.tokens.used,
            ENGINE.counters["chars4"].count(outcome.composed.text or ""),
        )
        assert used <= limit
        assert used == (-(-count * 1_500 // 1_000) + fixed if count else 0)


def test_cleared_and_shortened_messages_stay_within_the_limit_of_a_scale() -> None:
    history = [
        message
        for number in range(12)
        for message in (calls(f"c{number}"), result(f"c{number}", "word " * 300), says("user", "text " * 200))
    ]
    rule = conversation_policy(
        6_000, 500, 5_000, 500, counter="model", tool_results={"keep": 2}, shorten={"message_tokens": 100}
    )
    question = replace(asked(conversation={"messages": history, "new_message": "n"}), model="large")
    outcome = answer(question, rule, engine=replace(ENGINE, models=SCALED))
    total, count = 3, ENGINE.counters["chars4"].count
    for message in outcome.composed.messages or ():
        fixed, permille = (7 + 2, 2_000) if message["role"] == "tool" else (7, 1_500)
        text = message["content"] or ""
        if "tool_calls" in message:
            text = " ".join(message["tool_calls"][0]["function"].values())
            fixed, permille = 7 + 5, 2_000
        total += fixed - (-count(text) * permille // 1_000)
    assert outcome.composed.tokens.used == total <= 6_000
    forms = {entry.fidelity for entry in outcome.decision.candidates}
    assert {"cleared", "shortened"} <= forms


def test_a_row_without_a_scale_has_the_digest_of_earlier_versions() -> None:
    assert BYTES.digest == "sha256:dfcc60951a962803251e3e0261516a1c1d4e5e28494540291ded578784f4940c"
    assert BYTES.digest != replace(BYTES, scale=Scale()).digest
