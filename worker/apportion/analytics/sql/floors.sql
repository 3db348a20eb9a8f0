-- Which floors were not met, how often, by how much, and had they no candidates at all?
SELECT
    each.name AS "group",
    policy_name,
    count(*) AS decisions,
    count(*) FILTER (each.available = 0) AS without_candidates,
    sum(each.shortfall_requested) AS tokens_requested,
    sum(each.shortfall_available) AS tokens_available
FROM (SELECT policy_name, unnest(groups) AS each FROM decisions)
WHERE each.shortfall_requested IS NOT NULL
GROUP BY ALL
ORDER BY decisions DESC, "group", policy_name
LIMIT 200;
