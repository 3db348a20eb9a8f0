"""Strategy keep_signatures: bodies and docs in each language, and the fallback to whole lines."""

import subprocess
import sys

import pytest

from apportion.core.shrink import Ladder, ShrinkStrategy, ladder
from apportion.core.shrink.keep_signatures import language_of
from apportion.core.shrink.parsing import PARSED_MAX_CHARACTERS

GONE = " [... 1 lines omitted]"
LONG = "call_something_that_is_long_enough()"
"""A body that is longer than its marker."""


def ladder_of(code: str, language: str) -> Ladder:
    found = ladder(ShrinkStrategy.KEEP_SIGNATURES, code, len, language)
    assert found is not None
    return found


def without_bodies(code: str, language: str = "python") -> str:
    """Return the form in which all bodies are left out, and nothing else."""
    return ladder_of(code, language).rungs[0].render(1)


def without_docs(code: str, language: str = "python") -> str:
    """Return the form in which all bodies and docs are left out."""
    return ladder_of(code, language).rungs[1].render(1)


def falls_back(code: str, language: str) -> bool:
    oldest = ladder(ShrinkStrategy.TRUNCATE_OLDEST, code, len)
    assert oldest is not None
    return ladder_of(code, language).rungs[0].render(1) == oldest.rungs[0].render(1)


def test_no_parser_is_loaded_before_code_is_shrunk() -> None:
    program = (
        "import sys, apportion.core.compose\n"
        "from apportion.core.shrink import ShrinkStrategy, ladder\n"
        "ladder(ShrinkStrategy.TRUNCATE_OLDEST, 'text', len, 'python')\n"
        "assert not [name for name in sys.modules if name.startswith('tree_sitter')]\n"
        "ladder(ShrinkStrategy.KEEP_SIGNATURES, 'def f(): return 1', len, 'python')\n"
        "assert 'tree_sitter_python' in sys.modules\n"
        "assert 'tree_sitter_rust' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own interpreter


@pytest.mark.parametrize(
    ("language", "path", "parsed"),
    [
        (None, "src/a.py", "python"),
        (None, "src/a.PYI", "python"),
        (None, "a.tsx", "tsx"),
        (None, "a.mts", "typescript"),
        (None, "a.h", "c"),
        (None, "py", None),
        (None, "src.py/README", None),
        (None, None, None),
        ("TypeScriptReact", "a.py", "tsx"),
        ("golang", None, "go"),
        ("", "a.py", None),
        ("cobol", "a.py", None),
    ],
)
def test_the_language_is_given_or_found_by_the_path_ending(
    language: str | None, path: str | None, parsed: str | None
) -> None:
    assert language_of(language, path) == parsed


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", f"async def f(a: int) -> None:  # why\n    {LONG}\n"),
        ("python", f"    @classmethod\n    def f(cls) -> None:\n        {LONG}\n"),
        ("python", f'def f() -> None:\n    """What it does."""\n    {LONG}\n'),
        ("javascript", f"function f(a) {{ {LONG}; }}\n"),
        ("javascript", f"async function* f(a) {{ {LONG}; }}\n"),
        ("javascript", f"const f = function () {{ {LONG}; }};\n"),
        ("javascript", f"const f = (a) => {{ {LONG}; }};\n"),
        ("javascript", f"class A extends B {{ static async f(a) {{ {LONG}; }} }}\n"),
        ("javascript", f"  get f() {{ {LONG}; }}\n"),
        ("typescript", f"export function f<T>(a: T): T {{ {LONG}; }}\n"),
        ("typescript", f"abstract class A {{ private f(a?: string): void {{ {LONG}; }} }}\n"),
        ("typescript", f"namespace A {{ export const f = (): void => {{ {LONG}; }}; }}\n"),
        ("tsx", f"const F = (): Element => {{ {LONG}; return <a />; }};\n"),
        ("go", f"func (s *S) F(a int) (int, error) {{ {LONG} }}\n"),
        ("go", f"var f = func(a int) {{ {LONG} }}\n"),
        ("rust", f"pub async fn f<'a>(a: &'a str) -> &'a str {{ {LONG} }}\n"),
        ("rust", f"impl<T> A for B<T> {{ fn f(&self) {{ {LONG} }} }}\n"),
        ("rust", f"mod tests {{ #[test] fn f() {{ {LONG} }} }}\n"),
        ("java", f"class A {{ A(int a) {{ {LONG}; }} }}\n"),
        ("java", f"record A(int a) {{ A {{ {LONG}; }} }}\n"),
        ("java", f"interface A {{ default int f() throws E {{ {LONG}; }} }}\n"),
        ("java", f"@Override\npublic <T> T f(T a) {{ {LONG}; }}\n"),
        ("c", f"static int *f(int a) {{ {LONG}; }}\n"),
    ],
)
def test_a_signature_is_kept_without_its_body(language: str, code: str) -> None:
    before, _, behind = code.partition(LONG)
    behind = behind.removeprefix(";").removeprefix(" return <a />;")
    assert without_bodies(code, language) == before.rstrip() + GONE + behind


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "class A:\n    name: str\n    size: int = 1\n"),
        ("typescript", "interface A { name: string; f(a: string): void }\n"),
        ("go", "type A struct {\n\tname string\n}\n"),
        ("rust", "enum A { One(String), Two { size: usize } }\n"),
        ("java", "enum A { ONE, TWO; abstract int f(); }\n"),
        ("c", "struct a { int size; char *name; };\n"),
    ],
)
def test_types_stay_and_are_cut_at_their_end(language: str, code: str) -> None:
    found = ladder_of(code * 2, language)
    assert [rung.size for rung in found.rungs[:2]] == [0, 0]
    lines = (code * 2).count("\n") - 1
    assert found.rungs[2].render(lines).startswith(code)


def test_bodies_of_equal_depth_go_from_the_last_to_the_first() -> None:
    rung = ladder_of(f"def f():\n    {LONG}\n\ndef g():\n    {LONG}\n", "python").rungs[0]
    assert [rung.render(kept) for kept in (2, 1)] == [
        f"def f():\n    {LONG}\n\ndef g():{GONE}\n",
        f"def f():{GONE}\n\ndef g():{GONE}\n",
    ]


def test_a_body_in_a_type_is_dropped_before_a_top_level_body() -> None:
    rung = ladder_of(f"class A:\n    def f(self):\n        {LONG}\n\ndef g():\n    {LONG}\n", "python").rungs[
        0
    ]
    assert rung.render(2) == f"class A:\n    def f(self):{GONE}\n\ndef g():\n    {LONG}\n"


def test_a_body_that_is_no_longer_than_its_marker_stays() -> None:
    kept = f"def f(): {'x' * 20}\n"
    assert without_bodies(f"{kept}def g(): {'x' * 22}\n") == f"{kept}def g():{GONE}\n"


def test_a_function_with_errors_keeps_its_body() -> None:
    broken = f"int f(int a) {{ if (a {LONG}; }}\n"
    assert without_bodies(f"int g(void) {{ {LONG}; }}\n{broken}", "c").endswith(broken)


@pytest.mark.parametrize(
    ("language", "doc", "head"),
    [
        ("python", '"""Head.\n\n{}\n"""', '"""Head.{}\n"""'),
        ("python", 'r"""\nHead.\n{}"""', 'r"""\nHead.{}"""'),
        ("python", "'''\\\nHead.\n{}'''", "'''\\\nHead.{}'''"),
        ("python", "#!/usr/bin/env python\n# {}", "#!/usr/bin/env python{}"),
        ("javascript", "/**\n * Head.\n * {}\n */", "/**\n * Head.{}\n */"),
        ("javascript", "//\n// Head.\n// {}", "//\n// Head.{}"),
        ("rust", "//! Head.\n//! {}", "//! Head.{}"),
        ("rust", "/// Head.\n/// {}", "/// Head.{}"),
        ("java", "/***********\n * Head.\n * {}*/", "/***********\n * Head.{}*/"),
        ("go", "// Head.\r\n// {}", "// Head.{}"),
    ],
)
def test_a_doc_stays_by_its_head(language: str, doc: str, head: str) -> None:
    functions = {"python": "def f(): pass", "rust": "fn f() {}", "go": "func f() {}", "java": "class A {}"}
    function = functions.get(language, "function f() {}")
    code = f"{doc.format(LONG)}\n{function}\n"
    assert without_docs(code, language) == f"{head.format(GONE)}\n{function}\n"


def test_comments_with_a_blank_line_between_them_are_two() -> None:
    code = "# one\n# {0}\n\n# and\n# {0}\n\n# three\ndef f(): pass\n"
    assert without_docs(code.format(LONG)) == (f"# one{GONE}\n\n# and{GONE}\n\n# three\ndef f(): pass\n")


def test_an_unterminated_doc_is_dropped_with_the_following_body() -> None:
    code = f"def f():\n    'Head.\\\n    {LONG}'\n    {LONG}\n"
    assert without_docs(code) == f"def f():\n    'Head.\\{GONE}{GONE}\n"


def test_a_doc_is_dropped_with_its_body() -> None:
    found = ladder_of(f"function f() {{\n  // one\n  // {LONG}\n  return 1;\n}}\n", "javascript")
    assert [rung.size for rung in found.rungs[:2]] == [1, 0]


@pytest.mark.parametrize("before", ["# 👩\u200d👩\u200d👧 é 漢字\n", "# \0\x0c\u2028\n", "\ufeff"])
def test_places_are_counted_in_code_points(before: str) -> None:
    assert without_bodies(f"{before}def f():\n    {LONG}\n") == f"{before}def f():{GONE}\n"


def test_line_ends_of_two_characters_stay_whole() -> None:
    assert without_bodies(f"def f():\r\n    {LONG}\r\n\r\nx = 1\r\n") == f"def f():{GONE}\r\n\r\nx = 1\r\n"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", f"This is prose, and no code.\n{LONG}\nIt has no function.\n"),
        ("javascript", f"one\n{LONG}\nthree\n"),
        ("javascript", f"This is prose; {{it is no code.\n{LONG}\nIt has no function.\n"),
        ("javascript", f"called(a)\n{{\n{LONG}\n}}\n"),
        ("javascript", f"static a = {LONG};\nstatic b = 2;\n"),
        ("java", f"void void f() {{\n{LONG}\n"),
        ("cobol", f"def f():\n    {LONG}\n    return\n"),
    ],
)
def test_a_text_without_functions_and_types_loses_leading_lines(language: str, text: str) -> None:
    assert falls_back(text, language)


def test_a_text_that_is_too_long_to_be_parsed_loses_leading_lines() -> None:
    code = f"def f():\n    {LONG}\n"
    longest = code + "#" * (PARSED_MAX_CHARACTERS - len(code))
    assert not falls_back(longest, "python")
    assert falls_back(longest + "#", "python")
