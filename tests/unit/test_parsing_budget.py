"""Parsing in vain: code is parsed however much of it there is, hostile texts only so many of one request."""

import pytest
from support import answer, candidate, lanes_policy, request

from apportion.core.shrink import Parsing, ShrinkStrategy, ladder, syntax
from apportion.core.shrink.parsing import IN_VAIN_MAX_CHARACTERS, PARSED_MAX_CHARACTERS

STOPPED = "(a*)" * (PARSED_MAX_CHARACTERS // 4)
FAILED = ("def f(:\n    return 1\n" * PARSED_MAX_CHARACTERS)[:PARSED_MAX_CHARACTERS]
CODE = "def f(a):\n    call_something_that_is_long_enough()\n    return a\n"
WHOLE_CODE = CODE * (PARSED_MAX_CHARACTERS // len(CODE))


def parsed(monkeypatch: pytest.MonkeyPatch, parsing: Parsing, texts: list[str]) -> list[bool]:
    """Return which texts are parsed as artifacts of one request, after what was parsed before."""
    calls: list[str] = []
    outline = syntax.outline

    def watched(language: str, text: str, parsing: Parsing) -> syntax.Outline | None:
        calls.append(text)
        return outline(language, text, parsing)

    monkeypatch.setattr(syntax, "outline", watched)
    told = []
    for text in texts:
        before = len(calls)
        ladder(ShrinkStrategy.KEEP_SIGNATURES, text, len, "python", None, parsing)
        told.append(len(calls) > before)
    return told


def test_after_sixteen_parses_that_were_stopped_nothing_more_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert parsed(monkeypatch, Parsing(), [STOPPED] * 20 + [CODE]) == [True] * 16 + [False] * 5


def test_ninety_texts_full_of_errors_do_not_keep_code_from_being_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsing = Parsing()
    assert syntax.outline("python", FAILED, parsing) is None
    assert parsing.in_vain_characters == PARSED_MAX_CHARACTERS
    for _ in range(94):
        parsing.failed(FAILED)
    assert parsed(monkeypatch, parsing, [WHOLE_CODE, FAILED, CODE]) == [True, True, False]


@pytest.mark.parametrize(
    "text", [WHOLE_CODE, CODE + "def g(:\n" + CODE, "value = computed(1)\n" * 300, "# said\n"]
)
def test_code_and_what_has_no_errors_is_never_in_vain(text: str) -> None:
    parsing = Parsing()
    for _ in range(3):
        syntax.outline("python", text, parsing)
    assert parsing.in_vain_characters == 0 < IN_VAIN_MAX_CHARACTERS


def test_which_texts_are_parsed_does_not_depend_on_the_order_of_candidates() -> None:
    hostile = [STOPPED[:-number] for number in range(1, 25)]
    ones = [
        candidate(
            f"c{number}",
            kind="symbol_context",
            lane="structure",
            content=text,
            language="python",
            relevance=number / 40,
            token_estimate=1,
        )
        for number, text in enumerate([*hostile[:6], WHOLE_CODE, *hostile[6:], WHOLE_CODE])
    ]
    policy = lanes_policy(
        lanes={"structure": {"priority": 0, "min_tokens": 0, "max_tokens": 10_000}}, budget_tokens=2_000
    )
    orders = (ones, ones[::-1], ones[9:] + ones[:9])
    assert len({answer(request(order), policy).composed.text for order in orders}) == 1
