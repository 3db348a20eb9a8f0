-- From the topics into the tables. Made last: consuming begins with the first view of a queue.
CREATE MATERIALIZED VIEW apportion.decisions_view TO apportion.decisions AS
WITH JSONExtract(value, 'Tuple(
    type String, schema_version Int64, detail String, decision_id String, request_id String, session_id String,
    tenant String, requested_at String, engine_version String,
    policy Tuple(name String, version String, strategy String, digest String), counter Tuple(name String),
    status String, summary String,
    tokens Tuple(limit Int64, reserved Int64, used Int64, remaining Int64),
    session Tuple(after Tuple(prompts Int64, spent_tokens Int64)),
    groups Array(Tuple(name String, min Int64, max Nullable(Int64), used Int64, available Int64, selected Int64,
                       rejected Int64)),
    candidates_total Int64, candidates_selected Int64, reasons Array(Tuple(reason String, count Int64)),
    duplicate_of Nullable(String), run Tuple(worker Nullable(String), cache_hit Nullable(Bool)))') AS d
SELECT
    _topic AS topic,
    _partition AS partition,
    _offset AS offset,
    assumeNotNull(_timestamp_ms) AS recorded_at,
    d.schema_version AS schema_version,
    if(d.detail = '', 'full', d.detail) AS detail,
    d.decision_id AS decision_id,
    d.request_id AS request_id,
    d.session_id AS session_id,
    d.tenant AS tenant,
    parseDateTime64BestEffortOrZero(d.requested_at, 6, 'UTC') AS requested_at,
    d.engine_version AS engine_version,
    d.policy.name AS policy_name,
    d.policy.version AS policy_version,
    d.policy.strategy AS policy_strategy,
    d.policy.digest AS policy_digest,
    d.counter.name AS counter_name,
    d.status AS status,
    d.summary AS summary,
    d.tokens.limit AS tokens_limit,
    d.tokens.reserved AS tokens_reserved,
    d.tokens.used AS tokens_used,
    d.tokens.remaining AS tokens_remaining,
    d.session.after.prompts AS session_after_prompts,
    d.session.after.spent_tokens AS session_after_spent_tokens,
    d.groups AS groups,
    d.candidates_total AS candidates_total,
    d.candidates_selected AS candidates_selected,
    d.reasons AS reasons,
    d.duplicate_of AS duplicate_of,
    d.run.worker AS run_worker,
    d.run.cache_hit AS run_cache_hit,
    value AS record
FROM apportion.decisions_queue
WHERE d.type = 'context-decision' AND d.schema_version = 2;

CREATE MATERIALIZED VIEW apportion.candidates_view TO apportion.candidates AS
WITH JSONExtract(value, 'Tuple(
    type String, schema_version Int64, decision_id String, session_id String, tenant String, requested_at String,
    policy Tuple(name String, strategy String), status String, score_parts Array(String),
    candidates Array(Tuple(
        id String, kind String, group String, rank Int64, outcome String, score Nullable(Int64),
        parts Array(Int64), tokens Nullable(Int64), fidelity Nullable(String), full_tokens Nullable(Int64),
        reason Nullable(String), needed Nullable(Int64), left Nullable(Int64), more Nullable(Int64))))') AS d
SELECT
    d.decision_id AS decision_id,
    d.session_id AS session_id,
    d.tenant AS tenant,
    parseDateTime64BestEffortOrZero(d.requested_at, 6, 'UTC') AS requested_at,
    d.policy.name AS policy_name,
    d.policy.strategy AS policy_strategy,
    d.status AS status,
    c.id AS id,
    c.kind AS kind,
    c.group AS group,
    c.rank AS rank,
    c.outcome AS outcome,
    c.score AS score,
    mapFromArrays(
        arraySlice(d.score_parts, 1, length(c.parts)), arraySlice(c.parts, 1, length(d.score_parts))
    ) AS parts,
    c.tokens AS tokens,
    c.fidelity AS fidelity,
    c.full_tokens AS full_tokens,
    c.reason AS reason,
    if(isNull(c.needed) AND isNotNull(c.left), coalesce(c.tokens, 0), c.needed) AS needed,
    c.left AS left,
    c.more AS more
FROM apportion.decisions_queue
ARRAY JOIN d.candidates AS c
WHERE d.type = 'context-decision' AND d.schema_version = 2;

CREATE MATERIALIZED VIEW apportion.dead_letters_view TO apportion.dead_letters AS
WITH JSONExtract(value, 'Tuple(
    type String, error Tuple(code String, message String, pointer String),
    source Tuple(topic String, partition Int64, offset Int64, timestamp_ms Int64),
    value_bytes Int64, value_digest String, value_complete Bool, engine_version String)') AS d
SELECT
    _topic AS topic,
    _partition AS partition,
    _offset AS offset,
    assumeNotNull(_timestamp_ms) AS recorded_at,
    d.error.code AS error_code,
    d.error.message AS error_message,
    d.error.pointer AS error_pointer,
    d.source.topic AS source_topic,
    d.source.partition AS source_partition,
    d.source.offset AS source_offset,
    d.source.timestamp_ms AS source_timestamp_ms,
    d.value_bytes AS value_bytes,
    d.value_digest AS value_digest,
    d.value_complete AS value_complete,
    d.engine_version AS engine_version
FROM apportion.dead_letters_queue
WHERE d.type = 'context-dead-letter';

CREATE MATERIALIZED VIEW apportion.unreadable_decisions_view TO apportion.unreadable AS
SELECT
    _topic AS topic,
    _partition AS partition,
    _offset AS offset,
    assumeNotNull(_timestamp_ms) AS recorded_at,
    length(value) AS value_bytes
FROM apportion.decisions_queue
WHERE JSONExtractString(value, 'type') != 'context-decision' OR JSONExtractInt(value, 'schema_version') != 2;

CREATE MATERIALIZED VIEW apportion.unreadable_dead_letters_view TO apportion.unreadable AS
SELECT
    _topic AS topic,
    _partition AS partition,
    _offset AS offset,
    assumeNotNull(_timestamp_ms) AS recorded_at,
    length(value) AS value_bytes
FROM apportion.dead_letters_queue
WHERE JSONExtractString(value, 'type') != 'context-dead-letter';
