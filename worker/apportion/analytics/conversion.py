"""From records to rows: one batch of a partition in, a table of Arrow for each kind of row out.

Decides what stands in each column. Never reads or writes anything. Whole columns are made at once: Arrow
takes a list of a hundred thousand values in the time that Python takes to look at each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, get_args, get_origin

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import astuple, fields

from apportion.analytics.records import DeadLetter, Decision, Entry, UnreadableError, read
from apportion.analytics.tables import OF_ITS_DECISION, SCHEMAS, Table
from apportion.core.accountant import BOUNDS
from apportion.core.identity import digest

Columns = dict[str, Sequence[Any]]


class Lines(Struct, frozen=True, kw_only=True):
    """Records of one partition, by ascending offset; a timestamp (milliseconds) is None where there is none.

    Lines of a file are the records of partition 0 of a topic named like it.
    """

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int | None]
    values: Sequence[bytes | None]


def convert(lines: Lines) -> Mapping[Table, pa.Table]:
    """Return the rows of all tables, those of a table in the order of their offsets, then ranks.

    Every line has a row in exactly one of decisions, dead letters and unreadable ones.
    """
    found: dict[Table, list[tuple[int, Any]]] = {table: [] for table in Table}
    for index, value in enumerate(lines.values):
        try:
            record = read(value)
        except UnreadableError as error:
            found[Table.UNREADABLE].append((index, (error, value or b"")))
        else:
            kind = Table.DECISIONS if isinstance(record, Decision) else Table.DEAD_LETTERS
            found[kind].append((index, record))
    decisions = _indexed(found[Table.DECISIONS])
    dead_letters = _indexed(found[Table.DEAD_LETTERS])
    return {
        Table.DECISIONS: _table(Table.DECISIONS, lines, decisions[0], _columns(decisions[1], Decision)),
        Table.CANDIDATES: _candidates(lines, *decisions),
        Table.DEAD_LETTERS: _table(
            Table.DEAD_LETTERS, lines, dead_letters[0], _columns(dead_letters[1], DeadLetter)
        ),
        Table.UNREADABLE: _unreadable(lines, *_indexed(found[Table.UNREADABLE])),
    }


def _indexed(found: Sequence[tuple[int, Any]]) -> tuple[Sequence[int], Sequence[Any]]:
    return [index for index, _ in found], [record for _, record in found]


def _candidates(lines: Lines, indices: Sequence[int], decisions: Sequence[Any]) -> pa.Table:
    entries = list(chain.from_iterable([one.candidates for one in decisions]))
    columns = _columns(entries, Entry)
    columns["parts"] = [
        None if parts is None else list(zip(names, parts, strict=True)) for names, parts in _parts(decisions)
    ]
    columns["bound"] = [
        BOUNDS.get(reason) if bound is None else bound
        for bound, reason in zip(columns["bound"], columns["reason"], strict=True)
    ]
    columns["needed"] = [
        (tokens or 0) if needed is None and left is not None else needed
        for needed, tokens, left in zip(columns["needed"], columns["tokens"], columns["left"], strict=True)
    ]
    counts = [len(one.candidates) for one in decisions]
    repeated = [place for place, count in enumerate(counts) for _ in range(count)]
    its = _columns(decisions, Decision)
    for field in OF_ITS_DECISION:
        values = its[field.name]
        columns[field.name] = [values[place] for place in repeated]
    return _table(Table.CANDIDATES, lines, [indices[place] for place in repeated], columns)


def _parts(decisions: Sequence[Any]) -> Iterator[tuple[Sequence[str], Sequence[int] | None]]:
    for one in decisions:
        for entry in one.candidates:
            yield one.score_parts, entry.parts


def _unreadable(
    lines: Lines, indices: Sequence[int], found: Sequence[tuple[UnreadableError, bytes]]
) -> pa.Table:
    columns: Columns = {
        "error_code": [str(error.code) for error, _ in found],
        "error_message": [error.message for error, _ in found],
        "error_pointer": [error.pointer for error, _ in found],
        "value_bytes": [len(value) for _, value in found],
        "value_digest": [digest(value) for _, value in found],
    }
    return _table(Table.UNREADABLE, lines, indices, columns)


def _table(table: Table, lines: Lines, indices: Sequence[int], columns: Columns) -> pa.Table:
    """Return the rows of a table; `indices` are the places of their lines."""
    schema = SCHEMAS[table]
    columns |= {
        "topic": [lines.topic] * len(indices),
        "partition": [lines.partition] * len(indices),
        "offset": [lines.offsets[index] for index in indices],
        "recorded_at": [_us(lines.timestamps_ms[index]) for index in indices],
    }
    return pa.Table.from_arrays([_array(columns[one.name], one.type) for one in schema], schema=schema)


def _us(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms * 1000


def _columns(rows: Sequence[Struct | None], kind: Any, before: str = "") -> Columns:
    """Return the values of every field of records, by the path that is a column's name."""
    found: Columns = {}
    names = fields(kind)
    nothing = (None,) * len(names)
    values = list(zip(*[nothing if row is None else astuple(row) for row in rows], strict=True))
    for place, field in enumerate(names):
        inner, name = _struct_of(field.type), before + field.name
        of_field = values[place] if rows else ()
        if inner is None:
            found[name] = of_field
        else:
            found |= _columns(of_field, inner, f"{name}_")
    return found


def _struct_of(kind: Any) -> Any:
    """Return the struct that a field holds, itself or where it is not None."""
    [first, *_] = [each for each in get_args(kind) or (kind,) if each is not type(None)]
    is_struct = get_origin(kind) is not tuple and isinstance(first, type) and issubclass(first, Struct)
    return first if is_struct else None


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        values = [rows or () for rows in values]
        flat = list(chain.from_iterable(values))
        offsets = pa.array([0, *accumulate(map(len, values))], pa.int32())
        columns = _columns(flat, type(flat[0])) if flat else {one.name: () for one in kind.value_type}
        parts = [_array(columns[one.name], one.type) for one in kind.value_type]
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(parts, fields=[*kind.value_type]))
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)
