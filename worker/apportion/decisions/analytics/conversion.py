"""Conversion of a batch of records into rows: one Arrow table for each table of the sink.

Pure: it reads and writes nothing. For speed, no record becomes a Python object: msgspec checks the records,
and Arrow's JSON reader turns them into whole columns. Records that Arrow would read differently from msgspec
are decoded and encoded by msgspec first.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_origin

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from apportion.core.accountant import BOUNDS
from apportion.core.digests import digest
from apportion.core.errors import ErrorCode
from apportion.core.events import ContextUsage
from apportion.decisions.analytics.records import (
    DeadLetter,
    Decision,
    Entry,
    UnreadableError,
    in_columns,
    read,
    recognised,
    struct_in,
)
from apportion.decisions.analytics.tables import SCHEMAS, Table

_CANDIDATES = "candidates"
"""The field of a decision that becomes rows of a table of its own."""
_BATCH_MORE_BYTES = 1 << 10
"""Added to the size of the lines, so that Arrow reads a batch as a single block."""


KINDS: frozenset[Any] = frozenset({Decision, DeadLetter, ContextUsage})
_TABLES = {Decision: Table.DECISIONS, DeadLetter: Table.DEAD_LETTERS, ContextUsage: Table.USAGE}


class RecordLines(Struct, frozen=True, kw_only=True):
    """Records of one partition, by ascending offset. A record without a timestamp (in ms) has None."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int | None]
    values: Sequence[bytes | None]
    unreadable: Sequence[str] = ()
    """For each record, the reason why the client could not read it, or ""; empty if it could read all."""
    kinds: frozenset[Any] = KINDS
    """The types of records that are accepted from this topic."""


class _NotPlainError(Exception):
    """Records that Arrow refuses or would read differently from msgspec, or that are invalid."""


def convert(lines: RecordLines) -> Mapping[Table, pa.Table]:
    """Return the rows of all tables, ordered by offset, then by rank.

    Every record has a row in exactly one table, apart from the rows of its candidates.
    """
    indices_of: dict[Any, list[int]] = {kind: [] for kind in _TABLES}
    wrong = {
        index: UnreadableError(ErrorCode.UNREADABLE_RECORD, reason)
        for index, reason in enumerate(lines.unreadable)
        if reason
    }
    for index, value in enumerate(lines.values):
        if index in wrong:
            continue
        try:
            kind = recognised(value)
        except UnreadableError as error:
            wrong[index] = error
            continue
        if kind in lines.kinds:
            indices_of[kind].append(index)
        else:
            wrong[index] = UnreadableError(ErrorCode.UNKNOWN_TYPE, "no record of this topic", "$.type")
    columns = {kind: _columns_at(lines, indices, kind, wrong) for kind, indices in indices_of.items()}
    rows = {
        table: _table(table, lines, [i for i in indices_of[kind] if i not in wrong], columns[kind])
        for kind, table in _TABLES.items()
    }
    candidates = _candidates(rows[Table.DECISIONS], columns[Decision][_CANDIDATES])
    unreadable = _unreadable(lines, dict(sorted(wrong.items())))
    return rows | {Table.CANDIDATES: candidates, Table.UNREADABLE: unreadable}


def _columns_at(
    lines: RecordLines, indices: Sequence[int], kind: Any, wrong: dict[int, UnreadableError]
) -> dict[str, pa.Array]:
    """Return the columns of the records at these indices; records that prove invalid are added to `wrong`."""
    try:
        return _columns([lines.values[index] or b"" for index in indices], kind)
    except _NotPlainError:
        plain: list[bytes] = []
        for index in indices:
            try:
                plain.append(msgspec.json.encode(in_columns(read(lines.values[index]))))
            except UnreadableError as error:
                wrong[index] = error
        return _columns(plain, kind)


def _columns(values: Sequence[bytes], kind: Any) -> dict[str, pa.Array]:
    """Return the columns and a decision's lists of candidates, or raise _NotPlainError."""
    form = _form(kind)
    if any(b"\n" in value for value in values):
        raise _NotPlainError
    try:
        table = _read_json(b"\n".join(values), form) if values else form.empty_table()
        records = pa.concat_arrays(table.to_struct_array().chunks or [pa.array([], pa.struct(form))])
        columns = dict(_flat(records, kind))
        if kind is Decision:
            _require_candidates(columns)
    except pa.ArrowInvalid as error:
        raise _NotPlainError from error
    assert len(records) == len(values), "each line is one object, as msgspec has checked"
    return columns


def _require_candidates(decisions: Mapping[str, pa.Array]) -> None:
    """Check the candidates, which msgspec has not checked yet; raise ArrowInvalid or _NotPlainError."""
    lists = decisions[_CANDIDATES]
    entries = lists.values
    entries.validate(full=True)  # because Arrow accepts any bytes as a text
    required = [field.encode_name for field in fields(Entry) if field.required]
    named = pc.list_value_length(decisions["score_parts"]).take(pc.list_parent_indices(lists))
    fit = pc.equal(pc.list_value_length(entries.field("parts")), named)
    if any(entries.field(name).null_count for name in required) or not pc.all(fit, min_count=0).as_py():
        raise _NotPlainError


def _read_json(lines: bytes, form: pa.Schema) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + _BATCH_MORE_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=form, unexpected_field_behavior="ignore"),
    )


@cache
def _form(kind: Any) -> pa.Schema:
    """Return the fields of a record that become columns, nested as in the record."""
    return pa.schema(list(_fields_read(kind, _columns_of(kind))))


def _columns_of(kind: Any) -> dict[str, pa.DataType]:
    table = Table.CANDIDATES if kind is Entry else _TABLES[kind]
    return {field.name: field.type for field in SCHEMAS[table]}


def _fields_read(kind: Any, columns: Mapping[str, pa.DataType], before: str = "") -> Iterator[pa.Field]:
    for field in fields(kind):
        name, path = field.encode_name, before + _column(field)
        if path == _CANDIDATES:
            entry = pa.struct(list(_fields_read(Entry, _columns_of(Entry))))
            yield pa.field(name, pa.list_(entry))
        elif (inner := _struct_of(field)) is not None:
            if nested := list(_fields_read(inner, columns, f"{path}_")):
                yield pa.field(name, pa.struct(nested))
        elif path in columns:
            yield pa.field(name, _type_read(field, columns[path]))


def _type_read(field: FieldInfo, column: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow reads the field of a column."""
    if pa.types.is_dictionary(column):
        return column.value_type
    if pa.types.is_map(column):
        return pa.list_(column.item_type)
    if (row := _row_of(field)) is not None:
        inner = {part.name: part.type for part in column.value_type}
        return pa.list_(pa.struct(list(_fields_read(row, inner))))
    return column


def _flat(records: pa.StructArray, kind: Any, before: str = "") -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns of records, with defaults filled in. All columns of a null record are null."""
    for field in fields(kind):
        index = records.type.get_field_index(field.encode_name)
        if index < 0:
            continue
        name = before + _column(field)
        values = pc.struct_field(records, [index]) if records.null_count else records.field(index)
        if (inner := _struct_of(field)) is not None:
            yield from _flat(values, inner, f"{name}_")
        elif (row := _row_of(field)) is not None:
            flat = dict(_flat(values.values, row))
            rows = pa.StructArray.from_arrays(list(flat.values()), names=list(flat))
            yield name, pa.ListArray.from_arrays(values.offsets, rows)
        else:
            yield name, _filled(values, field.default, records)


def _column(field: FieldInfo) -> str:
    return field.encode_name.replace(".", "_")


def _filled(values: pa.Array, default: Any, records: pa.Array) -> pa.Array:
    if not values.null_count or default in (None, msgspec.NODEFAULT, msgspec.UNSET):
        return values
    if default == ():
        return pa.ListArray.from_arrays(values.offsets, values.values)
    filled = pc.fill_null(values, default)
    return pc.if_else(records.is_valid(), filled, None) if records.null_count else filled


def _struct_of(field: FieldInfo) -> Any:
    """Return the struct type of a field, optional or not; None if the field holds no struct."""
    return None if get_origin(field.type) is tuple else struct_in(field.type)


def _row_of(field: FieldInfo) -> Any:
    """Return the struct type of a field that holds a list of structs, else None."""
    return struct_in(field.type) if get_origin(field.type) is tuple else None


def _candidates(rows: pa.Table, lists: pa.ListArray) -> pa.Table:
    """Return the rows of candidates, from the rows of their decisions and the lists of candidates."""
    parents = pc.list_parent_indices(lists)
    own = dict(zip([field.name for field in lists.type.value_type], lists.values.flatten(), strict=True))
    own["parts"] = _parts(own["parts"], _whole(rows["score_parts"]).take(parents))
    own["bound"] = _bound(own["bound"], own["reason"].dictionary_encode())
    is_tacit = pc.and_(pc.is_null(own["needed"]), pc.is_valid(own["left"]))
    own["needed"] = pc.if_else(is_tacit, pc.fill_null(own["tokens"], 0), own["needed"])
    schema = SCHEMAS[Table.CANDIDATES]
    shared = {name: _whole(rows[name]).take(parents) for name in schema.names if name not in own}
    return _table_as(schema, own | shared)


def _parts(parts: pa.ListArray, names: pa.ListArray) -> pa.MapArray:
    """Return the parts of scores as maps by name; null where a score has no parts."""
    keys = pc.list_flatten(names.filter(parts.is_valid()) if parts.null_count else names)
    return pa.MapArray.from_arrays(parts.offsets, keys, parts.values, mask=parts.is_null())


def _bound(recorded: pa.Array, reasons: pa.DictionaryArray) -> pa.Array:
    """Return the recorded bounds; where none is recorded, the bound that the reason implies."""
    named = pa.array([BOUNDS.get(reason) for reason in reasons.dictionary.to_pylist()], pa.string())
    return pc.coalesce(recorded, named.take(reasons.indices))


def _unreadable(lines: RecordLines, wrong: Mapping[int, UnreadableError]) -> pa.Table:
    values = [lines.values[index] or b"" for index in wrong]
    columns = {
        "error_code": pa.array([str(error.code) for error in wrong.values()], pa.string()),
        "error_message": pa.array([error.message for error in wrong.values()], pa.string()),
        "error_pointer": pa.array([error.pointer for error in wrong.values()], pa.string()),
        "value_bytes": pa.array([len(value) for value in values], pa.int64()),
        "value_digest": pa.array([digest(value) for value in values], pa.string()),
    }
    return _table(Table.UNREADABLE, lines, list(wrong), columns)


def _table(
    table: Table, lines: RecordLines, indices: Sequence[int], columns: dict[str, pa.Array]
) -> pa.Table:
    schema = SCHEMAS[table]
    times_ms = [lines.timestamps_ms[index] for index in indices]
    recorded_us = [None if time_ms is None or time_ms < 0 else time_ms * 1000 for time_ms in times_ms]
    source = {
        "topic": pa.array([lines.topic] * len(indices), pa.string()),
        "partition": pa.array([lines.partition] * len(indices), pa.int32()),
        "offset": pa.array([lines.offsets[index] for index in indices], pa.int64()),
        "recorded_at": pa.array(recorded_us, schema.field("recorded_at").type),
    }
    return _table_as(schema, columns | source)


def _table_as(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table of these columns, each cast to the type that the schema has."""
    return pa.Table.from_arrays([_cast(columns[field.name], field.type) for field in schema], schema=schema)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(values.type):
        return values.dictionary_encode()
    return values if values.type == kind else values.cast(kind)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    [values] = column.chunks
    return values
