"""The tables and their columns, as docs/analytics.md explains them.

A field of a record is a column named by its path, with `_` for `.`. A list of rows stays a list. A column
holds the default of a field that the record leaves out, and null if the field does not apply.
"""

from enum import StrEnum
from functools import partial

import pyarrow as pa

SCHEMA_VERSION = 1
"""Version of the tables. It rises when a column is renamed, removed or changes its meaning, but not when one
is added."""


class Table(StrEnum):
    """The tables; each is a folder of that name."""

    DECISIONS = "decisions"
    CANDIDATES = "candidates"
    DEAD_LETTERS = "dead_letters"
    USAGE = "usage"
    UNREADABLE = "unreadable"


_TIME = pa.timestamp("us", tz="UTC")
_WORD = pa.dictionary(pa.int32(), pa.string())
"""A text with few distinct values; a string in Parquet and in SQL."""

_PLACE = [
    pa.field("topic", _WORD, nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("recorded_at", _TIME),
]
"""The record's place and its timestamp. Each place has one row in one table. A row of `candidates` has its
decision's place."""


def _fields(kind: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names]


_texts, _words = partial(_fields, pa.string()), partial(_fields, _WORD)
_counts, _times = partial(_fields, pa.int64()), partial(_fields, _TIME)


def _ledger(name: str) -> list[pa.Field]:
    return [
        *_counts(f"session_{name}_prompts", f"session_{name}_sequence", f"session_{name}_spent_tokens"),
        *_times(f"session_{name}_started_at", f"session_{name}_last_event_at", f"session_{name}_expires_at"),
        *_counts(
            f"session_{name}_injections", f"session_{name}_pool_artifacts", f"session_{name}_pool_bytes"
        ),
    ]


_REASON_COUNT = pa.struct([pa.field("reason", pa.string()), pa.field("count", pa.int64())])

GROUP = pa.struct(
    [
        pa.field("name", pa.string()),
        *_counts("min", "max", "used", "available", "selected", "rejected"),
        *_counts("shortfall_requested", "shortfall_available"),
    ]
)
PART = pa.struct([pa.field("name", pa.string()), *_counts("room", "fixed", "used", "available")])
CONSTRAINT = pa.struct([pa.field("name", pa.string()), *_counts("given", "matched", "unmatched")])
PHASE = pa.struct([pa.field("name", pa.string()), *_counts("duration_us")])

DECISIONS = pa.schema(
    [
        *_PLACE,
        *_counts("schema_version"),
        *_words("detail"),
        *_texts("decision_id", "request_id", "session_id"),
        *_words("tenant"),
        *_times("requested_at"),
        *_words("engine_version"),
        *_words("policy_name", "policy_version", "policy_strategy", "policy_digest"),
        *_words("counter_name", "counter_digest"),
        *_words("model_name", "model_table", "model_digest"),
        pa.field("counter_mismatch", pa.bool_()),
        *_texts("digests_input", "digests_candidates", "digests_constraints", "digests_session_before"),
        *_texts("digests_session_after", "digests_output", "digests_record"),
        *_words("fingerprint_key_id", "status"),
        *_texts("summary"),
        *_words("trigger_event", "trigger_workspace", "trigger_commitish", "trigger_rules_digest"),
        *_counts("limits_budget_tokens", "limits_max_tokens", "limits_max_tokens_per_request"),
        *_counts("limits_backoff_prompts", "limits_idle_timeout_s"),
        *_counts("tokens_limit", "tokens_reserved", "tokens_estimated", "tokens_used", "tokens_remaining"),
        *_ledger("before"),
        *_ledger("after"),
        pa.field("groups", pa.list_(GROUP)),
        pa.field("parts", pa.list_(PART)),
        pa.field("score_parts", pa.list_(pa.string())),
        *_counts("candidates_total", "candidates_selected"),
        pa.field("reasons", pa.list_(_REASON_COUNT)),
        pa.field("unlisted", pa.list_(_REASON_COUNT)),
        pa.field("constraints", pa.list_(CONSTRAINT)),
        *_counts("certificate_gap"),
        *_counts("prefix_previous_items", "prefix_held_items", "prefix_prefix_tokens"),
        pa.field("prefix_cold", pa.bool_()),
        *_counts("prefix_break_at"),
        *_texts("prefix_break_id"),
        *_words("prefix_break_why"),
        *_counts("window_tokens", "window_share", "window_cut", "window_since"),
        *_words("window_break"),
        *_counts("tool_results_cleared", "tool_results_freed_tokens"),
        *_counts("query_terms", "query_matched", "query_passages"),
        *_texts("duplicate_of"),
        pa.field("evicted", pa.list_(pa.string())),
        *_counts("evicted_unlisted"),
        *_texts("cache_key"),
        *_words("run_source_topic"),
        *_counts("run_source_partition", "run_source_offset"),
        *_words("run_worker"),
        pa.field("run_phases", pa.list_(PHASE)),
        pa.field("run_cache_hit", pa.bool_()),
    ]
)

CANDIDATES = pa.schema(
    [
        *_PLACE,
        # columns repeated from the decision, so that most queries need no join
        *_words("decision_id", "session_id", "tenant"),
        *_times("requested_at"),
        *_words("policy_name", "policy_strategy", "status"),
        # the candidate's own columns
        *_texts("id"),
        *_words("kind", "group"),
        *_counts("rank"),
        *_words("outcome"),
        *_counts("score"),
        pa.field("parts", pa.map_(pa.string(), pa.int64())),
        *_counts("tokens"),
        *_words("fidelity"),
        *_counts("full_tokens"),
        *_words("reason", "bound"),
        *_counts("needed", "left", "more", "limit_left"),
        *_words("constraint"),
        *_texts("redundant_covered_by"),
        *_counts("redundant_permille"),
        *_texts("superseded_by"),
        *_counts("lexical", "excerpt_passages"),
        pa.field("excerpt_lines", pa.list_(pa.list_(pa.int64()))),
        pa.field("moved", pa.bool_()),
    ]
)

DEAD_LETTERS = pa.schema(
    [
        *_PLACE,
        *_words("error_code"),
        *_texts("error_message", "error_pointer"),
        *_words("source_topic"),
        *_counts("source_partition", "source_offset", "source_timestamp_ms"),
        *_counts("value_bytes"),
        *_texts("value_digest"),
        pa.field("value_complete", pa.bool_()),
        *_words("engine_version"),
    ]
)
"""A row for each dead letter, without key, headers and value."""

USAGE = pa.schema(
    [
        *_PLACE,
        *_texts("request_id", "session_id"),
        *_words("tenant"),
        *_times("used_at"),
        *_words("gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model"),
        *_counts("gen_ai_usage_input_tokens", "gen_ai_usage_output_tokens"),
        *_counts("gen_ai_usage_cache_read_input_tokens", "gen_ai_usage_cache_creation_input_tokens"),
        *_counts("cache_creation_5m_input_tokens", "cache_creation_1h_input_tokens"),
        *_words("cache_miss_reason"),
    ]
)

UNREADABLE = pa.schema(
    [
        *_PLACE,
        *_words("error_code"),
        *_texts("error_message", "error_pointer"),
        *_counts("value_bytes"),
        *_texts("value_digest"),
    ]
)
"""A row for each record that fits no other table."""

SCHEMAS = {
    Table.DECISIONS: DECISIONS,
    Table.CANDIDATES: CANDIDATES,
    Table.DEAD_LETTERS: DEAD_LETTERS,
    Table.USAGE: USAGE,
    Table.UNREADABLE: UNREADABLE,
}
