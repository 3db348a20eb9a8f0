"""From records to rows: one batch of a partition in, a table of Arrow for each kind of row out.

Decides what stands in each column. Never reads or writes anything. Whole columns are made at once: Arrow
takes a list of a hundred thousand values in the time that Python takes to look at each of them.
"""

import gc
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, repeat
from typing import Any, get_args, get_origin

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import astuple, fields

from apportion.analytics.records import DeadLetter, Decision, Entry, UnreadableError, read
from apportion.analytics.tables import SCHEMAS, Table
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
    with _collection_paused():
        found: dict[Table, tuple[list[int], list[Any]]] = {table: ([], []) for table in Table}
        for index, value in enumerate(lines.values):
            try:
                record = read(value)
            except UnreadableError as error:
                table, record = Table.UNREADABLE, (error, value or b"")
            else:
                table = Table.DECISIONS if type(record) is Decision else Table.DEAD_LETTERS
            indices, records = found[table]
            indices.append(index)
            records.append(record)
        indices, decisions = found[Table.DECISIONS]
        rows = _table(Table.DECISIONS, lines, indices, _columns(decisions, Decision))
        indices, dead_letters = found[Table.DEAD_LETTERS]
        return {
            Table.DECISIONS: rows,
            Table.CANDIDATES: _candidates(rows, decisions),
            Table.DEAD_LETTERS: _table(
                Table.DEAD_LETTERS, lines, indices, _columns(dead_letters, DeadLetter)
            ),
            Table.UNREADABLE: _unreadable(lines, *found[Table.UNREADABLE]),
        }


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Let Python not look for cycles among millions of values that have none: a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _candidates(rows: pa.Table, decisions: Sequence[Any]) -> pa.Table:
    """Return the rows of the candidates of decisions, whose own rows are there."""
    of_each = [one.candidates for one in decisions]
    counts = [len(each) for each in of_each]
    schema = SCHEMAS[Table.CANDIDATES]
    columns = _columns(list(chain.from_iterable(of_each)), Entry)
    parts = columns.pop("parts")
    own = {name: _array(values, schema.field(name).type) for name, values in columns.items()}
    own["parts"] = _parts(decisions, parts)
    own["bound"] = _bound(own["bound"], own["reason"])
    is_tacit = pc.and_(pc.is_null(own["needed"]), pc.is_valid(own["left"]))
    own["needed"] = pc.if_else(is_tacit, pc.fill_null(own["tokens"], 0), own["needed"])
    places = pa.array(list(chain.from_iterable(map(repeat, range(len(counts)), counts))), pa.int32())
    shared = {
        field.name: _encoded(rows[field.name], field.type).take(places)
        for field in schema
        if field.name not in own
    }
    return pa.Table.from_arrays([(own | shared)[name] for name in schema.names], schema=schema)


def _encoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    [array] = column.chunks
    return array.dictionary_encode() if pa.types.is_dictionary(kind) else array


def _bound(told: pa.Array, reasons: pa.Array) -> pa.Array:
    """Return the bounds that are told, and those that a reason names."""
    named = pa.array([BOUNDS.get(reason) for reason in reasons.dictionary.to_pylist()], pa.string())
    return pc.coalesce(told.dictionary_decode(), named.take(reasons.indices)).dictionary_encode()


def _parts(decisions: Sequence[Any], values: Sequence[Sequence[int] | None]) -> pa.Array:
    """Return the parts of scores under their names, null where there are none."""
    names: dict[str, int] = {}
    known: dict[tuple[str, ...], array[int]] = {}
    keys = array("i")
    parts = pa.array(values, pa.list_(pa.int64()))
    for one in decisions:
        codes = known.get(one.score_parts)
        if codes is None:
            codes = array("i", [names.setdefault(name, len(names)) for name in one.score_parts])
            known[one.score_parts] = codes
        scored = one.candidates
        if parts.null_count:
            scored = [each for each in scored if each.parts is not None]
        keys.extend(codes * len(scored))
    places = pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(keys)])
    return pa.MapArray.from_arrays(
        parts.offsets,
        pa.array(list(names), pa.string()).take(places),
        parts.values,
        mask=parts.is_null(),
    )


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
    columns |= {
        "topic": [lines.topic] * len(indices),
        "partition": [lines.partition] * len(indices),
        "offset": [lines.offsets[index] for index in indices],
        "recorded_at": [_us(lines.timestamps_ms[index]) for index in indices],
    }
    schema = SCHEMAS[table]
    return pa.Table.from_arrays([_array(columns[one.name], one.type) for one in schema], schema=schema)


def _us(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms * 1000


def _columns(rows: Sequence[Struct | None], kind: Any, before: str = "") -> Columns:
    """Return the values of every field of records, by the path that is a column's name."""
    names = fields(kind)
    nothing = (None,) * len(names)
    values = list(zip(*[nothing if row is None else astuple(row) for row in rows], strict=True))
    found: Columns = {}
    for place, field in enumerate(names):
        inner, name = _struct_of(field.type), before + field.encode_name
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
        rows = list(chain.from_iterable([each or () for each in values]))
        offsets = pa.array([0, *accumulate([len(each or ()) for each in values])], pa.int32())
        columns = _columns(rows, type(rows[0])) if rows else {one.name: () for one in kind.value_type}
        parts = [_array(columns[one.name], one.type) for one in kind.value_type]
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(parts, fields=[*kind.value_type]))
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)
