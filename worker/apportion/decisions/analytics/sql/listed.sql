-- Which decisions to look at: the latest of every status in turn, 5,000 in all.
WITH turns AS (
    SELECT *, row_number() OVER (PARTITION BY status ORDER BY requested_at DESC, decision_id) AS turn
    FROM (
        SELECT status, requested_at, decision_id FROM decisions
    )
)
SELECT
    decision_id, request_id, session_id, tenant, requested_at,
    policy_name, policy_version, policy_strategy, counter_name, model_name, counter_mismatch, status,
    tokens_limit, tokens_reserved, tokens_used, candidates_total, candidates_selected,
    reasons[1].reason AS main_reason,
    len(list_filter(groups, lambda each: each.shortfall_requested IS NOT NULL)) AS floors_not_met,
    list_sum(list_transform(run_phases, lambda each: each.duration_us)) AS duration_us,
    run_cache_hit
FROM decisions
JOIN (FROM turns ORDER BY turn, status LIMIT 5000) USING (decision_id, status, requested_at)
ORDER BY turn, status;
