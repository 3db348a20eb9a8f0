"""Cost of `apportion report`: each named query, the whole report, and the size of the page.

`python -m benchmarks.report DECISIONS` makes that number of decisions of 20 candidates, by simple rules and
without the engine, as Parquet in a temporary folder.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import duckdb

from apportion.decisions.analytics.page import page_of
from apportion.decisions.analytics.queries import load_queries
from apportion.decisions.analytics.report import report_of
from apportion.decisions.analytics.source import open_tables

CANDIDATES = 20
FILE_DECISIONS = 100_000

_DECISIONS = """
SELECT
    'context-decisions' AS topic, (i % 8)::INT AS partition, i // 8 AS "offset",
    TIMESTAMPTZ '2026-03-02 00:00:00Z' + to_milliseconds(i * 604800000 // {total}) AS recorded_at,
    2 AS schema_version, 'full' AS detail,
    md5(i::VARCHAR) AS decision_id, 'r' || i AS request_id,
    's' || drawn(i) % ({total} // 50 + 1) AS session_id,
    't' || drawn(i + 7) % 5 AS tenant, recorded_at AS requested_at, '0.3.0' AS engine_version,
    ['lanes', 'tight', 'wide'][1 + drawn(i + 1) % 3] AS policy_name, '1' AS policy_version,
    'lanes' AS policy_strategy, 'sha256:' || sha256(policy_name) AS policy_digest,
    'o200k_base' AS counter_name, 'sha256:' || sha256('c') AS counter_digest,
    {digests}
    NULL::VARCHAR AS digests_record, '4464344292d31f5d' AS fingerprint_key_id,
    CASE WHEN drawn(i + 2) % 50 = 0 THEN 'exhausted' WHEN drawn(i + 2) % 50 = 1 THEN 'duplicate'
         WHEN drawn(i + 2) % 200 = 2 THEN 'infeasible' ELSE 'composed' END AS status,
    'composed: 12 of 20 candidates' AS summary, 'file_saved' AS trigger_event,
    NULL::VARCHAR AS trigger_workspace, NULL::VARCHAR AS trigger_commitish,
    NULL::VARCHAR AS trigger_rules_digest,
    8000 AS limits_budget_tokens, 500000 AS limits_max_tokens, 0 AS limits_max_tokens_per_request,
    5 AS limits_backoff_prompts, 86400 AS limits_idle_timeout_s,
    8000 AS tokens_limit, 0 AS tokens_reserved,
    CASE WHEN status = 'composed' THEN (4000 + drawn(i + 3) % 3900)::BIGINT ELSE 0 END AS tokens_used,
    tokens_used AS tokens_estimated, 8000 - tokens_used AS tokens_remaining,
    {ledgers}
    [{{'name': 'rules', 'min': 500, 'max': 2000, 'used': 900, 'available': 1500, 'selected': 4, 'rejected': 2,
       'shortfall_requested': CASE WHEN drawn(i + 4) % 12 = 0 THEN 500 END,
       'shortfall_available': CASE WHEN drawn(i + 4) % 12 = 0 THEN drawn(i + 5) & 255 END}},
     {{'name': 'local', 'min': 1000, 'max': 3000, 'used': 2800, 'available': 5000, 'selected': 5,
       'rejected': 4, 'shortfall_requested': NULL, 'shortfall_available': NULL}},
     {{'name': 'retrieved', 'min': 0, 'max': 2000, 'used': 1700, 'available': 4000, 'selected': 3,
       'rejected': 2, 'shortfall_requested': NULL, 'shortfall_available': NULL}}] AS groups,
    ['recency', 'relevance', 'specificity', 'risk_alignment'] AS score_parts,
    {candidates} AS candidates_total, CASE WHEN status = 'composed' THEN 12 ELSE 0 END AS candidates_selected,
    [{{'reason': 'budget_exceeded', 'count': 5}}, {{'reason': 'lane_max_reached', 'count': 3}}] AS reasons,
    []::STRUCT(reason VARCHAR, count BIGINT)[] AS unlisted,
    []::STRUCT(name VARCHAR, given BIGINT, matched BIGINT, unmatched BIGINT)[] AS constraints,
    NULL::VARCHAR AS duplicate_of, []::VARCHAR[] AS evicted, 0 AS evicted_unlisted,
    'sha256:' || sha256('k' || i) AS cache_key,
    'context-requests' AS run_source_topic, partition AS run_source_partition, "offset" AS run_source_offset,
    'worker-' || i % 4 AS run_worker,
    [{{'name': 'prepare', 'duration_us': 150 + drawn(i + 8) & 255}},
     {{'name': 'choose', 'duration_us': 300 + drawn(i + 9) & 1023}},
     {{'name': 'record', 'duration_us': 90 + drawn(i + 10) & 63}}] AS run_phases,
    drawn(i + 11) % 10 = 0 AS run_cache_hit
FROM range({first}, {last}) AS numbers(i)
"""

_CANDIDATES = """
SELECT
    topic, partition, "offset", recorded_at,
    decision_id, session_id, tenant, requested_at, policy_name, policy_strategy, status,
    substr(md5(decision_id || rank), 1, 24) AS id,
    ['rule_doc', 'local_diff', 'recent_edit', 'symbol_context', 'semantic_match'][1 + h % 5] AS kind,
    ['rules', 'local', 'local', 'retrieved', 'retrieved'][1 + h % 5] AS "group",
    rank::INT AS rank,
    CASE WHEN rank > 12 OR status <> 'composed' THEN 'omitted' ELSE 'selected' END AS outcome,
    1000 - 40 * rank AS score, NULL::MAP(VARCHAR, BIGINT) AS parts,
    (40 + h % 900)::BIGINT AS tokens, CASE WHEN outcome = 'selected' THEN 'full' END AS fidelity,
    NULL::BIGINT AS full_tokens,
    CASE WHEN status <> 'composed' THEN status WHEN rank <= 12 THEN NULL
         WHEN h % 3 = 0 THEN 'lane_max_reached' ELSE 'budget_exceeded' END AS reason,
    NULL::VARCHAR AS bound, CASE WHEN reason IS NOT NULL THEN tokens END AS needed,
    CASE WHEN reason IS NOT NULL THEN tokens // 2 END AS left,
    CASE WHEN reason = 'budget_exceeded' THEN (tokens * (rank - 11))::BIGINT END AS more,
    NULL::BIGINT AS limit_left, NULL::VARCHAR AS "constraint"
FROM (
    SELECT *, drawn(decision_id || rank) AS h
    FROM made, (SELECT unnest(range(1, {candidates} + 1)) AS rank)
)
"""


def main(total: int) -> None:
    """Make the decisions, then print what each query, the report and the page cost."""
    with TemporaryDirectory() as folder:
        make_tables(Path(folder), total)
        with open_tables((Path(folder),)) as tables:
            for query in load_queries():
                since = perf_counter()
                rows = tables.execute(query.sql).fetchall()
                print(f"{query.name:<16} {perf_counter() - since:6.2f} s {len(rows):>8,} rows")
        since = perf_counter()
        with open_tables((Path(folder),)) as tables:
            page = page_of(report_of(tables))
        print(f"report of {total:,} decisions: {perf_counter() - since:.1f} s, {len(page) / 1e6:.2f} MB")


def make_tables(folder: Path, total: int) -> None:
    """Write the tables `decisions` and `candidates` as `apportion sink` would."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE MACRO drawn(key) AS (hash(key) >> 2)::BIGINT")
    for name in ("decisions", "candidates"):
        (folder / name).mkdir(parents=True)
    digests = "".join(
        f"'sha256:' || sha256('{name}' || i) AS digests_{name}, "
        for name in ("input", "candidates", "constraints", "session_before", "session_after", "output")
    )
    ledgers = "".join(
        f"i // 1000 + {add} AS session_{name}_prompts, i // 1000 + {add} AS session_{name}_sequence, "
        f"(drawn(session_id) % 500000)::BIGINT AS session_{name}_spent_tokens, "
        f"requested_at AS session_{name}_started_at, requested_at AS session_{name}_last_event_at, "
        f"requested_at AS session_{name}_expires_at, 12 AS session_{name}_injections, "
        f"0 AS session_{name}_pool_artifacts, 0 AS session_{name}_pool_bytes, "
        for name, add in (("before", 0), ("after", 1))
    )
    for first in range(0, total, FILE_DECISIONS):
        last = min(total, first + FILE_DECISIONS)
        names = {"total": total, "first": first, "last": last, "candidates": CANDIDATES}
        made = _DECISIONS.format(digests=digests, ledgers=ledgers, **names)
        connection.execute(f"CREATE OR REPLACE TABLE made AS {made}")
        for name, rows in (("decisions", "FROM made"), ("candidates", _CANDIDATES.format(**names))):
            file = folder / name / f"{first:09}.parquet"
            connection.execute(f"COPY ({rows}) TO '{file}' (COMPRESSION zstd)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
