"""The workload's rules for texts, sources and paths."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.demo.workload import paths
from apportion.demo.workload.syntax import language, outline
from apportion.demo.workload.text import (
    CHUNK_MAX_CHARACTERS,
    CHUNK_MAX_LINES,
    chunks,
    head,
    hunks,
    identifiers,
    words,
)

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d", " x", "-y", "+z"]), max_size=40)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def patched(old: str, new: str) -> str:
    """Return what git makes of a text and its hunks."""
    patch = "--- a/file\n+++ b/file\n" + "".join(hunk.text for hunk in hunks(old, new))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.write_bytes(old.encode())
        command = [shutil.which("git") or "git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=folder, input=patch.encode(), check=True)  # noqa: S603 - git itself
        return file.read_bytes().decode() if file.exists() else ""


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_git_applies_the_hunks_of_any_two_texts(old: str, new: str) -> None:
    assert patched(old, new) == new if old != new else not hunks(old, new)


def test_two_very_different_long_texts_are_one_replacement() -> None:
    old, new = ("".join(f"{side} {number}\n" for number in range(3_000)) for side in ("old", "new"))
    old, new = (f"{text}in both\n{text}" for text in (old, new))

    (hunk,) = hunks(f"same\n{old}", f"same\n{new}")

    assert hunk.changed == old + new
    assert patched(f"same\n{old}", f"same\n{new}") == f"same\n{new}"


def test_a_hunk_names_its_new_lines_and_the_change() -> None:
    old = "".join(f"{number}\n" for number in range(20))

    (hunk,) = hunks(old, old.replace("10\n", "ten\n"))

    assert hunk.changed == "10\nten\n"
    assert (hunk.start, hunk.end) == (7, 14)


@given(st.text(st.sampled_from("ab \n\r\x0c\u2028é😀"), max_size=300).map(lambda text: text * 40))
def test_chunks_keep_their_bounds_and_lose_nothing(text: str) -> None:
    found = list(chunks(text))

    assert "".join(found) == text
    assert all(0 < len(chunk) <= CHUNK_MAX_CHARACTERS for chunk in found)
    assert all(chunk.count("\n") <= CHUNK_MAX_LINES for chunk in found)
    assert head(text) == (found[0] if found else "")


def test_a_chunk_ends_with_its_paragraph_once_it_is_half_full() -> None:
    assert [chunk.strip() for chunk in chunks(f"{'x' * 1100}\n\n{'y' * 800}")] == ["x" * 1100, "y" * 800]
    assert len(list(chunks(f"{'x' * 900}\n\n{'y' * 800}"))) == 1


def test_names_fall_apart_into_words_in_lower_case() -> None:
    found = words("parseHTTPHeader snake_case ÜberFluß NAÏVE x1 of 日本語")

    assert found == {"parse", "http", "header", "snake", "case", "überfluß", "naïve", "日本語"}


def test_identifiers_stay_whole() -> None:
    assert identifiers("self.takeAll(stock_2, 3, x)") == {"self", "takeAll", "stock_2"}


SOURCES = {
    "a.c": '#include "lib/b.h"\nint one(void) { return 1; }\nstatic char *two(int x) { return 0; }\n',
    "a.go": 'package a\nimport "lib/b"\nfunc one() {}\ntype two struct{}\n',
    "A.java": "import lib.b;\nclass one { int two() { return 2; } }\n",
    "a.js": 'import b from "lib/b";\nfunction one() {}\nconst two = () => 2;\n',
    "a.py": "import lib.b\n@decorated\ndef one():\n    print 'python 2'\nclass two: pass\n",
    "a.rs": "use lib::b;\nfn one() {}\nstruct two;\n",
    "a.ts": 'import b from "lib/b";\ninterface one {}\nexport class two {}\n',
    "a.tsx": 'import b from "lib/b";\nconst one = () => <p/>;\nexport function two() {}\n',
}


@pytest.mark.parametrize("path", SOURCES)
def test_a_parser_finds_definitions_and_imports_in_each_language(path: str) -> None:
    found = outline(path, SOURCES[path])

    assert language(path) is not None
    assert [definition.name for definition in found.definitions] == ["one", "two"]
    assert [paths.module_parts(module) for module in found.imports] == [("lib", "b")]


def test_a_definition_has_its_decorators_and_its_whole_body() -> None:
    (one, _) = outline("a.py", SOURCES["a.py"]).definitions

    assert SOURCES["a.py"].split("\n")[one.start : one.end] == [
        "@decorated",
        "def one():",
        "    print 'python 2'",
    ]


def test_a_language_without_a_parser_has_no_outline() -> None:
    assert language("a.txt") is None
    assert outline("a.txt", "def one(): pass") == ((), ())


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("tests/test_stock.py", "stock"),
        ("shop/stock_test.go", "stock"),
        ("src/stock.spec.ts", "stock"),
        ("src/test/StockTest.java", "Stock"),
        ("tests/helpers.py", "helpers"),
    ],
)
def test_tests_are_known_by_folder_or_name_and_name_their_subject(path: str, subject: str) -> None:
    assert paths.is_test(path)
    assert paths.subject(path) == subject


@pytest.mark.parametrize("path", ["shop/contest.py", "shop/latest.ts", "testing.py", "shop/_stock.py"])
def test_other_files_are_no_tests(path: str) -> None:
    assert not paths.is_test(path)


def test_rules_and_constraints_cover_the_whole_repository() -> None:
    rule_docs = ["README", "README.md", "CONTRIBUTING.rst", ".github/CONTRIBUTING.md", "AGENTS.md"]
    constraints = [".editorconfig", "LICENSE", "SECURITY.md", ".github/CODEOWNERS"]
    neither = ["shop/README.md", "readme_parser.py", "docs/stock.md", "shop/LICENSE"]

    assert [path for path in rule_docs + constraints + neither if paths.is_rule_doc(path)] == rule_docs
    assert [path for path in rule_docs + constraints + neither if paths.is_constraint(path)] == constraints


def test_a_module_is_in_reach_from_the_top_its_folder_and_below() -> None:
    assert paths.in_reach("stock.py", "shop/deep/till.py")
    assert paths.in_reach("src/stock.py", "shop/deep/till.py")
    assert paths.in_reach("shop/deep/stock.py", "shop/deep/till.py")
    assert paths.in_reach("shop/stock/__init__.py", "shop/deep/till.py")
    assert not paths.in_reach("tests/stock.py", "shop/deep/till.py")
    assert not paths.in_reach("shop/deeper/stock.py", "shop/deep/till.py")


def test_a_path_and_a_module_share_the_parts_at_their_ends() -> None:
    assert paths.shared_tail("src/shop/stock.py", ("shop", "stock")) == 2
    assert paths.shared_tail("src/shop/__init__.py", ("src", "shop")) == 2
    assert paths.shared_tail("src/shop/stock.py", ("other", "stock")) == 1
    assert paths.shared_tail("src/shop/stock.py", ("shop",)) == 1


def test_nearness_counts_the_folders_that_two_paths_share() -> None:
    assert paths.nearness("shop/stock.py", ["shop/stock.py"]) == 1
    assert paths.nearness("shop/stock.py", ["shop/till.py"]) == 0.667
    assert paths.nearness("shop/stock.py", ["tests/test_stock.py"]) == 0.333
    assert paths.nearness("shop/stock.py", ["tests/test_stock.py", "shop/till.py"]) == 0.667
    assert paths.nearness("shop/stock.py", []) == 0
