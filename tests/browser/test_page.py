"""The report's page in a real browser: no errors, no outgoing requests, and working controls.

The browser is Chromium, as Debian's package `chromium` has it. `TEST_REQUIRE_CHROMIUM=1` makes its absence
a failure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support.reported import DEAD_LETTER, HOSTILE, as_lines, candidate, decision, hostile, page
from support.requiring import CHROMIUM

from apportion.decisions.analytics.replayed import replayed_of

ARGUMENTS = (
    "--no-sandbox",  # a container's root has none
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MANY = 120
ROWS = [
    candidate("stands", 1, outcome="selected", reason=None, left=None, fidelity="full", tokens=30),
    candidate("missed", 2, tokens=40, left=30, more=10),
]
SIDE = {"status": "composed", "counter": "chars4", "limit": 60, "used": 50}
MOVED = {"id": HOSTILE, "kind": "rule_doc", "group": "rules", "tokens": 40, "reason": "budget_exceeded"}
REPLAY: list[dict[str, Any]] = [
    {"decision_id": "f" * 32, "before": SIDE, "after": SIDE | {"used": 10}, "lost": [MOVED], "gained": []},
    {"replayed": 9, "changed": 1, "lost": 1, "gained": 0, "tokens_before": 450, "tokens_after": 410},
]


@dataclass
class Opened:
    """A page, its errors and its requests."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = CHROMIUM.require()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of many decisions, one of them all hostile, one infeasible, and a replay."""
    tokens = {"limit": 60, "reserved": 0, "estimated": 30, "used": 30, "remaining": 30}
    told = {"tokens": tokens, "run": {"phases": [{"name": "choose", "duration_us": 900}], "cache_hit": False}}
    records = [decision(number, candidates=ROWS, **told) for number in range(MANY)]
    parts = [
        {"name": name, "room": 60, "fixed": 0, "used": 15, "available": 90} for name in ("tools", "history")
    ]
    parts.append({"name": "response", "room": 12, "fixed": 12, "used": 0, "available": 0})
    infeasible = decision(MANY + 1, status="infeasible", parts=parts, tokens=tokens)
    records += [hostile(MANY), infeasible, DEAD_LETTER]
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(records, replayed_of(as_lines(REPLAY))))
    return path


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["wide and light", "narrow and dark"])
def opened(request: pytest.FixtureRequest, browser: Browser, file: Path) -> Iterator[Opened]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = Opened(context.new_page())
    opened.page.set_default_timeout(20_000)
    opened.page.on("console", lambda message: opened.complaints.append(message.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.goto(file.as_uri())
    opened.page.wait_for_selector("html[data-ready]")
    yield opened
    # after every test: no error, and no request except for the page itself
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith((file.as_uri(), "data:"))] == []
    context.close()


def rows(page: Page) -> list[str]:
    """Return the ids of the rows that the table shows."""
    return page.eval_on_selector_all("#listed tbody tr[data-id]", "rows => rows.map(row => row.dataset.id)")  # type: ignore[no-any-return] # JSON


def test_every_section_has_content_and_fits_the_window(opened: Opened) -> None:
    page = opened.page
    titles = page.locator("main section > h2").all_text_contents()
    assert len(titles) == 11
    assert page.locator("nav a").all_text_contents() == titles
    page.wait_for_function(
        "document.querySelectorAll('.chart svg').length === document.querySelectorAll('.chart').length"
    )
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_hostile_ids_are_shown_as_text_alone(opened: Opened) -> None:
    page = opened.page
    page.fill("#search", "onerror")
    assert rows(page) == [f"{MANY:032x}"]
    page.locator("#listed tbody tr").click()
    page.wait_for_selector("#one .waterfall")
    assert HOSTILE in page.locator("#one .waterfall .id").all_text_contents()
    assert page.locator("img").count() == 0


def test_decisions_are_filtered_and_sorted(opened: Opened) -> None:
    page = opened.page
    assert page.locator("#decisions [role=status]").text_content() == f"1 to 25 of {MANY + 2}"
    page.select_option("#by-status", "infeasible")
    assert rows(page) == [f"{MANY + 1:032x}"]
    page.select_option("#by-status", "")
    page.fill("#search", "r11")
    found = rows(page)
    assert f"{11:032x}" in found
    page.fill("#search", "")
    page.locator("#listed th button").first.click()
    assert rows(page)[0] == f"{0:032x}"
    assert page.locator("#listed th[aria-sort=ascending]").count() == 1
    page.fill("#search", "no such id")
    assert page.locator("#listed .empty").count() == 1


def test_a_decision_is_opened_as_a_waterfall_by_keys_alone_and_closed(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type(f"{5:032x}")
    page.locator("#listed tbody tr").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#one .waterfall")
    waterfall = page.locator("#one .waterfall tbody tr")
    assert waterfall.count() == 2
    missed = waterfall.nth(1).locator(".why").text_content()
    assert missed == "budget_exceeded · needed 40, left 30 · 10 more admit it"
    starts, stands, line = (
        waterfall.nth(1).locator(".track i").bounding_box(),
        waterfall.nth(0).locator(".track i").bounding_box(),
        waterfall.nth(0).locator(".line b").bounding_box(),
    )
    assert starts is not None
    assert stands is not None
    assert line is not None
    assert starts["x"] == pytest.approx(
        stands["x"] + stands["width"], abs=1.5
    )  # where the one before it ends
    assert starts["x"] < line["x"] < starts["x"] + starts["width"]  # and it passes the limit
    page.get_by_role("button", name="left out", exact=True).click()
    assert [row.is_visible() for row in waterfall.all()] == [False, True]
    assert re.search(r"#decision=0+5$", page.url)
    page.keyboard.press("Escape")
    assert page.locator("#one").is_hidden()
    assert page.evaluate("document.activeElement.dataset.id") == f"{5:032x}"


def test_the_parts_of_a_request_fill_a_bar(opened: Opened) -> None:
    page = opened.page
    page.evaluate(f"location.hash = 'decision={MANY + 1:032x}'")
    page.wait_for_selector("#one .parts")
    widths = [part.bounding_box() for part in page.locator("#one .parts i").all()]
    wide = sum(box["width"] for box in widths if box)
    assert [round(60 * box["width"] / wide) for box in widths if box] == [15, 15, 12, 18]
    says = page.locator("#one .legend li").all_text_contents()[:4]
    assert says == [
        "tools: 15 (25 %)",
        "history: 15 (25 %)",
        "response, kept free: 12 (20 %)",
        "not used: 18 (30 %)",
    ]


def test_a_decision_can_be_linked_to(opened: Opened) -> None:
    page = opened.page
    page.goto(f"{page.url}#decision={7:032x}")
    page.wait_for_selector("#one .waterfall")
    assert f"{7:032x}" in (page.locator("#one .facts").text_content() or "")


def test_a_replay_is_shown_side_by_side(opened: Opened) -> None:
    page = opened.page
    page.locator("#replayed details summary").click()
    sides = page.locator("#replayed .sides > div")
    sides.nth(1).wait_for()  # they are put in when the browser says that it is open
    before, after = sides.all_text_contents()
    assert HOSTILE in before
    assert HOSTILE not in after
    assert "10 of 60 tokens" in after


def test_colours_can_be_chosen_and_print_is_light(opened: Opened) -> None:
    page = opened.page
    paper = "getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    light = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) != light
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
