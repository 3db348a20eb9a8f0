-- Which policies decided, how full were their answers, and how often was an answer remembered?
SELECT
    policy_name, policy_version, policy_strategy,
    count(*) AS decisions,
    sum(tokens_limit) AS tokens_limit,
    sum(tokens_used) AS tokens_used,
    count(*) FILTER (status = 'duplicate') AS duplicates,
    count(run_cache_hit) AS cache_known,
    count(*) FILTER (run_cache_hit) AS cache_hits
FROM decisions
GROUP BY ALL
ORDER BY decisions DESC, policy_name, policy_version, policy_strategy
LIMIT 50;
