-- Which floors were not met, how often, by how much, and were there no candidates for them at all?
SELECT
    each.name AS "group",
    policy_name,
    count(*) AS decisions,
    count(*) FILTER (each.available = 0) AS without_candidates,
    sum(each.shortfall_requested) AS tokens_requested,
    sum(each.shortfall_available) AS tokens_available,
    sum(each.used) AS tokens_used
FROM (SELECT policy_name, unnest(groups) AS each FROM decisions)
WHERE each.shortfall_requested IS NOT NULL
GROUP BY ALL
ORDER BY decisions DESC, "group", policy_name
LIMIT 200;
