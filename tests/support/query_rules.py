"""Terms, passages and relevance by their definitions: by character and by line. Slow, and simple."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

STOP_WORDS = set(
    "a an and are as at be but by can do for from had has have how if in into is it its no not of on or so "  # noqa: SIM905 - as the rule has them
    "that the then there this to was we what when which will with you".split()
)
SMALL = "abcdefghijklmnopqrstuvwxyz"
CAPITAL = SMALL.upper()
DIGITS = "0123456789"
WITHOUT_SPACES = (  # Thai, Lao, Tibetan and Burmese are neighbours; then Khmer, and East Asia
    *(("\u0e00", "\u109f"), ("\u1780", "\u17ff")),
    *(("\u2e80", "\u2fff"), ("\u3040", "\ufdff")),
)


def runs(text: str) -> list[str]:
    found: list[str] = []
    joins = False
    for char in text:
        alone = any(first <= char <= last for first, last in WITHOUT_SPACES) or char >= "\U00010000"
        within = not alone and (char in SMALL + CAPITAL + DIGITS + "_" or "\u00c0" <= char <= "\u1fff")
        if alone or (within and not joins):
            found.append(char)
        elif within:
            found[-1] += char
        joins = within
    return found


def class_of(char: str) -> str:
    for name, chars in (("small", SMALL), ("capital", CAPITAL), ("digit", DIGITS), ("_", "_")):
        if char in chars:
            return name
    return "other"


def parts(run: str) -> list[str]:
    found: list[str] = []
    while run:
        kinds = [class_of(char) for char in run]
        length = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), len(run))
        if kinds[0] == "capital" and kinds[length : length + 1] == ["small"]:
            length -= 1
        if length == 0:
            length = next((place for place, kind in enumerate(kinds[1:], 1) if kind != "small"), len(run))
        if kinds[0] != "_":
            found.append("".join(char.lower() if char in CAPITAL else char for char in run[:length]))
        run = run[length:]
    return found


def terms_of_run(run: str) -> list[str]:
    found = []
    for part in parts(run):
        # "this" is a term all the same: it loses its "s" first
        if (part in STOP_WORDS and part != "this") or (len(part) == 1 and part.isascii()):
            continue
        plural = part.isascii() and len(part) > 3 and part.endswith("s") and not part.endswith("ss")
        found.append(part[:-1] if plural else part)
    return [*found, "".join(parts(run))] if len(parts(run)) > 1 else found


JOINING = set(
    "about above after again against all already also although am another any anyway around away because been before being below between both cannot could did didn doe doesn doing don done down due during each either else etc even ever every few first further get got having he her here him his however i instead itself just keep kept let like made make may maybe me might more most much must my need never new next nor now off often once one only other our out over own per please rather really said same seem see several shall she should since some something still such take than their them themselve they thing these those though through thu thus together too toward under unless until up upon us used using very via want way well were whether while who whole whose why within without won would yes yet you your isn wasn aren couldn shouldn wouldn hasn haven actually currently correctly properly simply always previously longer".split()  # noqa: SIM905, E501 - as the rule has them
)
ASKING = set(
    "fix fixe fixed fixing bug issue close closed resolve resolved backport pr commit patch add added adding change changed improve handle handling allow avoid prevent ensure support behavior behaviour correct incorrect wrong problem cause caused broken expected report reproduce test tests".split()  # noqa: SIM905, E501 - as the rule has them
)


def terms(text: str, *, stems: bool = False) -> list[str]:
    found = [term for run in runs(text) for term in terms_of_run(run)]
    return list(map(stem, found)) if stems else found


def stem(term: str) -> str:
    if len(term) < 5 or not set(term) <= set(SMALL):
        return term
    for ending in "ing edly ed er est ly ies ied es s y e".split():  # noqa: SIM905 - as the rule has them
        if term.endswith(ending) and len(term) - len(ending) >= 3:
            return term[: len(term) - len(ending)]
    return term


def asked_terms(query: str, rule: Mapping[str, Any]) -> set[str]:
    found = set(terms(query))
    if rule.get("drop_words"):
        found = found - JOINING - ASKING - {"thi"} or found
    return set(map(stem, found)) if rule.get("stems") else found


def lines_of(content: str) -> list[str]:
    """Return the lines without their ends; behind the last LF there is none."""
    lines = content.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def is_blank(line: str) -> bool:
    return set(line) <= set(" \t\r")


def level(line: str) -> int:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return sum(4 if char == "\t" else 1 for char in indent)


def passages(content: str, most: int, line_most: int | None = None) -> list[tuple[int, int]]:
    """Return the offsets of the first character of each passage, and behind its last."""
    whole = content if content.endswith("\n") else content + "\n"
    lines = lines_of(content)
    if not most or len(whole) <= most:
        return [(0, len(content))]
    ends = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
    pieces = [(ends[first], ends[end]) for first, end in cut(lines, 0, len(lines), most)]
    if not has_blank_lines(content):
        longest = most if line_most is None else line_most
        pieces = [
            (first + begin, first + end)
            for first, last in pieces
            for begin, end in (
                cut_line(whole[first:last], most) if last - first > longest else [(0, last - first)]
            )
        ]
    if len(whole) < 32 * len(pieces):
        pieces = joined(pieces)
    return [*pieces[:-1], (pieces[-1][0], len(content))]


def has_blank_lines(content: str) -> bool:
    lines = lines_of(content)
    filled = [at for at, line in enumerate(lines) if not is_blank(line)]
    return bool(filled) and filled != list(range(filled[0], filled[-1] + 1))


def cut_line(line: str, most: int) -> list[tuple[int, int]]:
    """Return the pieces of a line; no run of several characters is in two."""
    found, begin = [], 0
    while len(line) - begin > most:
        after = [at for at in range(begin + 1, len(line) + 1) if len(runs(f"a{line[at - 1]}a")) != 1]
        spaces = [at for at in after if line[at - 1] == " " and most // 2 < at - begin <= most]
        near = [at for at in after if at - begin <= most]
        end = max(spaces or near or after[:1])
        if end >= len(line) - 1:
            break
        found.append((begin, end))
        begin = end
    return [*found, (begin, len(line))]


def header_of(content: str, most: int) -> int:
    """Return the end of a table's two first lines, or 0."""
    if not most or len(content) + (not content.endswith("\n")) <= most or has_blank_lines(content):
        return 0
    names, *below = (content + "\n").split("\n")[: 2 if content.count("\n") > 1 else 1]
    if not below or "|" not in names or not {"|", "-"} <= set(below[0]):
        return 0
    end = len(names) + len(below[0]) + 2
    is_rule = set(below[0].removesuffix("\r")) <= set(" \t|:-")
    return end if is_rule and end <= most else 0


def size_of(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def joined(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pieces, neighbours in one as long as that has at most 64 characters."""
    found = [pieces[0]]
    for first, end in pieces[1:]:
        if end - found[-1][0] <= 64:
            found[-1] = found[-1][0], end
        else:
            found.append((first, end))
    return found


def cut(lines: Sequence[str], first: int, end: int, most: int) -> list[tuple[int, int]]:
    if end - first == 1 or size_of(lines[first:end]) <= most:
        return [(first, end)]
    starts = [at for at in range(first + 1, end) if is_blank(lines[at - 1]) and not is_blank(lines[at])]
    if starts:
        least = min(level(lines[at]) for at in starts)
        bounds = [first, *(at for at in starts if level(lines[at]) == least), end]
        return [piece for pair in itertools.pairwise(bounds) for piece in cut(lines, *pair, most)]
    pieces, begin = [], first
    for at in range(first, end):
        if at > begin and size_of(lines[begin : at + 1]) > most:
            pieces.append((begin, at))
            begin = at
    return [*pieces, (begin, end)]


def shown(content: str, kept: Iterable[tuple[int, int]], header: int = 0) -> str:
    """Return the text of some passages, with a line for each range that is left out."""
    out: list[str] = []
    before = 0
    for first, end in [*shown_ranges(kept, header), (len(content), len(content))]:
        if left_out := content[before:first]:
            whole_lines = (before == 0 or content[before - 1] == "\n") and (
                first == len(content) or content[first - 1] == "\n"
            )
            number, noun = (len(lines_of(left_out)), "line") if whole_lines else (len(left_out), "character")
            out.append(f"[... {number} {noun}{'s' if number > 1 else ''} omitted]")
        if first < len(content):
            out.append(content[first:end].removesuffix("\n"))
        before = end
    return "\n".join(out)


def shown_ranges(kept: Iterable[tuple[int, int]], header: int) -> list[tuple[int, int]]:
    """Return the ranges of characters that are shown, neighbours in one; a header is one of its own."""
    pieces = sorted(kept)
    ranges = [(0, header)] if header and pieces[0][0] else []
    for first, end in pieces:
        if ranges and ranges[-1][1] == first and ranges[-1] != (0, header):
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((first, end))
    return ranges


def shown_lines(content: str, kept: Iterable[tuple[int, int]], header: int) -> list[list[int]]:
    """Return the ranges of lines, from 1, of which anything is shown; neighbours are one range."""
    numbers = sorted(
        {
            content.count("\n", 0, at) + 1
            for first, end in shown_ranges(kept, header)
            for at in range(first, end)
        }
    )
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


@cache
def lg(number: int) -> int:
    power, k = number**1_000, 0
    while 2 ** (k + 1) <= power:
        k += 1
    return k


def relevances(
    query: str,
    texts: Sequence[Sequence[str]],
    raws: Sequence[Mapping[str, Any]],
    rule: Mapping[str, Any] = {},
) -> tuple[list[list[int]], dict[str, int]]:
    """Return x of each passage of each candidate, and the query section of the decision."""
    asked, stems = asked_terms(query, rule), rule.get("stems", False)
    in_passages = [[terms(text, stems=stems) for text in passages] for passages in texts]
    lengths = [[len(runs(text)) for text in passages] for passages in texts]
    number = sum(map(len, texts))
    average = max(1, sum(map(sum, lengths)) // number) if number else 1

    def often(term: str, place: int, passage: int) -> int:
        in_path = term in terms(raws[place].get("path", ""), stems=stems)
        return in_passages[place][passage].count(term) + 2 * in_path

    everywhere = [(place, passage) for place, found in enumerate(texts) for passage in range(len(found))]
    df = {term: sum(often(term, *at) > 0 for at in everywhere) for term in asked}
    raw = dict.fromkeys(everywhere, 0)
    for at in everywhere:
        length = lengths[at[0]][at[1]]
        for term in asked:
            f = often(term, *at)
            if f > 0:
                w = lg(number + 1) - lg(df[term])
                raw[at] += w * 22 * f * average // (10 * f * average + 3 * average + 9 * length)
    most = max(raw.values(), default=0)
    p = {at: 1_000 * value // most if most else 0 for at, value in raw.items()}
    if rule.get("neighbours"):
        p = with_neighbours(p, texts, raws, rule["neighbours"])
    homes = [each.get("path") or each["id"] + "\0" for each in raws]
    best, share = {}, rule.get("file_share")
    for home in homes:
        found = sorted((p[at] for at in everywhere if homes[at[0]] == home), reverse=True)
        best[home] = found[0] if share is None else min(1_000, sum(found[:3]) // 2)
    share = 250 if share is None else share
    x = {
        at: ((1_000 - share) * p[at] + share * best[homes[at[0]]]) // 1_000 if p[at] else 0
        for at in everywhere
    }
    if rule.get("adjacent") and most:
        x = with_adjacent(x, rule["adjacent"])
    match = {
        "terms": len(asked),
        "matched": sum(count > 0 for count in df.values()),
        "passages": number,
    }
    return [[x[place, passage] for passage in range(len(found))] for place, found in enumerate(texts)], match


def with_adjacent(x: Mapping[tuple[int, int], int], adjacent: int) -> dict[tuple[int, int], int]:
    raised = {
        (place, passage): value
        + adjacent * max(x.get((place, passage - 1), 0), x.get((place, passage + 1), 0)) // 1_000
        if value
        else 0
        for (place, passage), value in x.items()
    }
    return {at: 1_000 * value // max(raised.values()) for at, value in raised.items()}


def with_neighbours(
    p: Mapping[tuple[int, int], int],
    texts: Sequence[Sequence[str]],
    raws: Sequence[Mapping[str, Any]],
    neighbours: int,
) -> dict[tuple[int, int], int]:
    """Return p of each passage with the shares that its neighbours lend, the greatest 1,000 again."""
    turns = {
        number: (raw.get("source") or raw.get("path") or "", raw["chunk_index"])
        for number, raw in enumerate(raws)
        if "chunk_index" in raw and len(texts[number]) == 1
    }

    def at(sequence: str, place: int) -> int | None:
        return max(
            (p[number, 0] for number, turn in turns.items() if turn == (sequence, place)), default=None
        )

    raised = dict(p)
    for number, (sequence, place) in turns.items():
        before, after = at(sequence, place - 1), at(sequence, place + 1)
        before_that = 0 if before is None else at(sequence, place - 2) or 0
        after_that = 0 if after is None else at(sequence, place + 2) or 0
        near, far = (before or 0) + (after or 0), before_that + after_that
        raised[number, 0] += (neighbours * near + neighbours // 2 * far) // 1_000
    most = max(raised.values(), default=0)
    return {key: 1_000 * value // most if most else 0 for key, value in raised.items()}
