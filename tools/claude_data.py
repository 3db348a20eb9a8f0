"""Generator of the Claude counters' data from ctok 1.3.0, with Python 3.13 (Unicode 15.1).

Run it as `python3.13 -m tools.claude_data` in an environment that has ctok; the worker does not need ctok.
"""

# ruff: noqa: SLF001  # ctok is read from the inside, once

import json
import subprocess
import sys
import unicodedata
import zlib
from collections import defaultdict
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "worker/apportion/engine/counters/claude/claude.json.z"
_LAST = 0xFFFF
_MARKERS = {0xFDD0: 1, 0xFDD1: 2, 0xFDD3: 3, 0xFDD4: 4}
"""The control characters that replace ctok's markers; normalisation removes them from texts."""


def _hard(rules: Any, char: str, category: str) -> str:
    """Return the class of a character that ctok calls hard."""
    if rules._is_selector(char):
        return "v"
    if rules._marks_like_punct(char):
        return "p"
    if rules._digit_border(char):
        return "n" if category == "No" else "d"
    return "h"


def _class_of(rules: Any, char: str) -> str:
    """Return the class of a character, as the counters' module of streams describes the classes."""
    category = unicodedata.category(char)
    kind = rules.classify(char)
    if kind == "wordy":
        other = "y" if rules._marks_like_punct(char) else "x"
        return "m" if rules._stray_mark(char) else "w" if category[0] in "LM" else other
    if kind == "hard":
        return _hard(rules, char, category)
    if kind == "digit":
        return "0" if char.isascii() else "1"
    return {"punct": "q", "space": "s" if char == " " else "t"}[kind]


def _ranges(chars: list[int]) -> list[list[int]]:
    """Return sorted code points as first and last of each range."""
    groups = [
        [code for _, code in group] for _, group in groupby(enumerate(chars), lambda pair: pair[1] - pair[0])
    ]
    return [[group[0], group[-1]] for group in groups]


def _assigned_before() -> set[int]:
    """Return the code points that are assigned in Unicode 14.0, by Python 3.11."""
    program = (
        "import sys, unicodedata as u; assert u.unidata_version == '14.0.0';"
        "print(*(c for c in range(sys.maxunicode + 1) if u.category(chr(c)) not in ('Cn', 'Cs')))"
    )
    return set(map(int, subprocess.check_output(["python3.11", "-c", program]).split()))  # noqa: S603, S607


def _is_inert(char: str) -> bool:
    """Return whether normalisation keeps a character, and never joins it to the character before it."""
    jamo = "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97f" or "\ud7b0" <= char <= "\ud7ff"
    return (
        unicodedata.normalize("NFC", char) == char
        and unicodedata.category(char)[0] not in "MC"
        and not (jamo or unicodedata.combining(char))
    )


def _tables(rules: Any) -> dict[str, Any]:
    classes, sets = defaultdict(list), defaultdict(list)
    lower: dict[str, str] = {}
    title: dict[int, str] = {}
    before = _assigned_before()
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if code > _LAST:
            assert _class_of(rules, char) == "h", "a class above U+FFFF"
            continue
        kind = _class_of(rules, char)
        classes[kind].append(code)
        if code not in before and unicodedata.category(char) != "Cs":
            sets["new"].append(code)
        elif _is_inert(char) and kind in "wqhpnds":
            sets["word" if kind == "w" else "safe"].append(code)
        if rules._is_upper(char):
            lower[char] = rules._lower(char)
        elif rules._lower(char) != char:
            title[code] = rules._lower(char)
        if rules._is_lower(char):
            sets["small"].append(code)
    sets["new"] += sorted(set(range(_LAST + 1, sys.maxunicode + 1)) - before)
    return {
        "classes": {name: _ranges(codes) for name, codes in classes.items()},
        "lower": lower,
        "title": title,
        "sets": {name: _ranges(codes) for name, codes in sets.items()},
    }


def main() -> None:
    """Write the data."""
    main_module, rules = import_module("ctok.main"), import_module("ctok.normalize")
    assert unicodedata.unidata_version == "15.1.0", "the tables have Unicode 15.1"
    data: dict[str, Any] = {"tables": _tables(rules)}
    for family in ("v3", "v4.7"):
        model = main_module._model(family)
        data[family] = {
            "pieces": sorted(piece.translate(_MARKERS) for piece in model.vocab),
            "bytes": sorted(model.bytes.tokens - {char.encode().hex() for char in model.unit_pieces}),
        }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    DATA.write_bytes(zlib.compress(text.encode("utf-8", "surrogatepass"), 9))


if __name__ == "__main__":
    main()
