"""The terms of a text, by examples."""

import pytest

from apportion.core.query.terms import runs_of, terms_of, terms_of_run


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getHTTPResponses", ["get", "http", "response", "gethttpresponses"]),
        ("the jobs", ["job"]),
        ("do_it", ["doit"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("class glass bus", ["class", "glass", "bus"]),
        ("utf8 x1", ["utf", "utf8", "x1"]),
        ("__init__", ["init"]),
        ("___", []),
        ("A a 1 é", ["é"]),
        ("Éclairs ÉS", ["É", "clair", "Éclairs", "És"]),
        ("漢字", ["漢", "字"]),
        ("a\U0001f600b", ["\U0001f600"]),
    ],
)
def test_a_text_has_these_terms(text: str, terms: list[str]) -> None:
    assert terms_of(text) == frozenset(terms)


def test_a_run_in_ascii_has_the_same_terms_as_bytes_and_as_a_text() -> None:
    for run in ("cancelJob_v2", "HTTPServers", "x", "_"):
        assert terms_of_run(run) == terms_of_run(run.encode())


def test_a_run_that_holds_a_term_twice_counts_it_twice() -> None:
    assert terms_of_run(b"job_job") == ("job", "job", "jobjob")


def test_a_separator_beyond_ascii_parts_runs() -> None:
    assert sorted(map(str, runs_of("naïve…plan"))) == ["naïve", "plan"]
