"""The terms of a text, by examples."""

import pytest

from apportion.core.query.terms import occurring_terms, read_terms, terms_of


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
        ("ไส้", ["ไ", "ส", "\u0e49"]),
        ("xລາ1", ["ລ", "າ"]),
        ("ཀ་ခ\u109fក", ["ཀ", "་", "ခ", "\u109f", "ក"]),
        ("\u0dffé\u10a0 \u177f\u1800", ["\u0dffé\u10a0", "\u177f\u1800"]),
        ("a\U0001f600b", ["\U0001f600"]),
    ],
)
def test_a_text_has_these_terms(text: str, terms: list[str]) -> None:
    assert terms_of(text) == frozenset(terms)


def test_a_run_that_holds_a_term_twice_counts_it_twice() -> None:
    assert sorted(occurring_terms("job_job")) == ["job", "job", "jobjob"]


def test_a_separator_beyond_ascii_parts_runs() -> None:
    text = "naïve…plan".encode()
    assert read_terms(text, (0, len(text))).runs.tolist() == [2]
