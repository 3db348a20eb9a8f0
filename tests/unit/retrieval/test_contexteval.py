"""`lanes` inside ContextEval; its package is not installed with the tests."""

import sys

import pytest
from benchmarks.retrieval.commands import app
from benchmarks.retrieval.contexteval import Offer, chosen
from typer.testing import CliRunner


def test_the_query_decides_between_offers_of_equal_score() -> None:
    offers = [
        Offer("Pay by card or by invoice.", 0.5, is_forced=False),
        Offer("Reset the password by mail.", 0.5, is_forced=False),
    ]
    assert chosen(offers, "How do I reset a password?", 8) == [1]
    assert chosen(offers, "Can I pay an invoice?", 8) == [0]
    assert chosen(offers, "Can I pay an invoice?", 20) == [0, 1]


def test_a_forced_offer_is_chosen_at_any_score() -> None:
    offers = [
        Offer("Answer from the context.", 0, is_forced=True),
        Offer("Pay by card or by invoice.", 1.1, is_forced=False),
    ]
    assert chosen(offers, "Can I pay by card?", 8) == [0]


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "astromesh_context", None)
    result = CliRunner().invoke(app, ["contexteval"])
    assert (result.exit_code, "pip install 'astromesh-context" in result.stderr) == (2, True)
