"""The site that `make docs` built, in a real browser: its search and its copy buttons."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright
from support.requiring import CHROMIUM, SITE

COPIED = """button => {
  document.execCommand = () => (window.copied = document.activeElement.value, true);
  button.click();
  return window.copied;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    chromium, _ = CHROMIUM.require(), SITE.require()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_page()
        browser.close()


def found(page: Page, query: str) -> list[str]:
    """Return the pages that the search finds, best first."""
    page.goto(f"{(Path(SITE.require()) / 'search.html').as_uri()}?q={query}")
    page.wait_for_function("document.querySelector('.search-summary')?.innerText.includes('finished')")
    links = page.locator("ul.search > li > a").all()
    return [str(link.get_attribute("href")).partition(".html")[0] for link in links]


def test_the_search_ranks_pages_that_answer_first_and_architecture_decisions_last(page: Page) -> None:
    installing = found(page, "install")
    is_decision = [name.startswith("docs/adr/") for name in installing if name != "CHANGELOG"]
    assert installing[0] == "docs/install"
    assert is_decision == sorted(is_decision)
    assert any(is_decision)
    assert found(page, "error codes")[0].startswith("docs/operations")
    assert "docs/explain" in found(page, "why was my candidate omitted")[:6]


def test_a_copy_button_copies_commands_without_prompts_and_outputs(page: Page) -> None:
    page.goto((Path(SITE.require()) / "docs/explain.html").as_uri())
    button = page.wait_for_selector(".highlight-console button.copybtn")
    assert button is not None
    assert button.evaluate(COPIED) == "apportion explain 5ec94d --decisions decisions.jsonl"


def test_no_line_of_the_landing_page_is_wider_than_a_telephone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((Path(SITE.require()) / "index.html").as_uri())
    assert page.locator(".card").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
