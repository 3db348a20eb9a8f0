-- How much was decided, from when to when, and what stands out?
SELECT
    count(*) AS decisions,
    min(requested_at) AS first_at,
    max(requested_at) AS last_at,
    count(DISTINCT (tenant, session_id)) AS sessions,
    count(DISTINCT tenant) AS tenants,
    sum(tokens_limit) AS tokens_limit,
    sum(tokens_used) AS tokens_used,
    sum(candidates_total) AS candidates_total,
    sum(candidates_selected) AS candidates_selected,
    coalesce(sum(list_sum(list_transform(unlisted, lambda each: each.count))), 0) AS candidates_unlisted,
    count(*) FILTER (status = 'exhausted') AS exhausted,
    count(*) FILTER (status = 'infeasible') AS infeasible,
    count(*) FILTER (status = 'duplicate') AS duplicates,
    count(*) FILTER (len(list_filter(groups, lambda each: each.shortfall_requested IS NOT NULL)) > 0)
        AS floors_not_met,
    count(*) FILTER (detail <> 'full') AS in_less_detail
FROM decisions;
