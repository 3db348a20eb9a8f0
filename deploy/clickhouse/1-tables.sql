-- Decisions, their candidates and dead letters, each once: the topics are at least once, and of what comes
-- again a ReplacingMergeTree keeps one row. Until parts are merged both stand: ask with FINAL.
-- No table has partitions: times are what clients say, and an INSERT into too many partitions would stop the queue.
-- Columns are called as those of `apportion sink` (docs/analytics.md), and mean the same.
CREATE DATABASE IF NOT EXISTS apportion;

CREATE TABLE apportion.decisions
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    recorded_at DateTime64(3, 'UTC'),
    schema_version Int64,
    detail LowCardinality(String),
    decision_id String,
    request_id String,
    session_id String,
    tenant LowCardinality(String),
    requested_at DateTime64(6, 'UTC'),
    engine_version LowCardinality(String),
    policy_name LowCardinality(String),
    policy_version LowCardinality(String),
    policy_strategy LowCardinality(String),
    policy_digest LowCardinality(String),
    counter_name LowCardinality(String),
    status LowCardinality(String),
    summary String,
    tokens_limit Int64,
    tokens_reserved Int64,
    tokens_used Int64,
    tokens_remaining Int64,
    session_after_prompts Int64,
    session_after_spent_tokens Int64,
    groups Array(Tuple(name String, min Int64, max Nullable(Int64), used Int64, available Int64, selected Int64,
                       rejected Int64)),
    candidates_total Int64,
    candidates_selected Int64,
    reasons Array(Tuple(reason LowCardinality(String), count Int64)),
    duplicate_of Nullable(String),
    run_worker LowCardinality(Nullable(String)),
    run_cache_hit Nullable(Bool),
    record String CODEC(ZSTD(3)) -- the whole of it, for what has no column: JSONExtractInt(record, 'limits', 'max_tokens')
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, session_id, requested_at, decision_id);

CREATE TABLE apportion.candidates
(
    decision_id String,
    session_id String,
    tenant LowCardinality(String),
    requested_at DateTime64(6, 'UTC'),
    policy_name LowCardinality(String),
    policy_strategy LowCardinality(String),
    status LowCardinality(String),
    id String,
    kind LowCardinality(String),
    group LowCardinality(String),
    rank Int64,
    outcome LowCardinality(String),
    score Nullable(Int64),
    parts Map(LowCardinality(String), Int64),
    tokens Nullable(Int64),
    fidelity LowCardinality(Nullable(String)),
    full_tokens Nullable(Int64),
    reason LowCardinality(Nullable(String)),
    needed Nullable(Int64),
    left Nullable(Int64),
    more Nullable(Int64)
)
ENGINE = ReplacingMergeTree
ORDER BY (tenant, requested_at, decision_id, rank);

CREATE TABLE apportion.dead_letters -- without key, headers and value: no content
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    recorded_at DateTime64(3, 'UTC'),
    error_code LowCardinality(String),
    error_message String,
    error_pointer String,
    source_topic LowCardinality(String),
    source_partition Int64,
    source_offset Int64,
    source_timestamp_ms Int64,
    value_bytes Int64,
    value_digest String,
    value_complete Bool,
    engine_version LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (source_topic, source_partition, source_offset, error_code);

CREATE TABLE apportion.unreadable -- where a record stands that is none of these, or of another schema_version
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    recorded_at DateTime64(3, 'UTC'),
    value_bytes Int64
)
ENGINE = ReplacingMergeTree
ORDER BY (topic, partition, offset);
