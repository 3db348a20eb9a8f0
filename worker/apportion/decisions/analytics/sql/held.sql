-- How much of the texts began as the session's last text, why did they not, and what was cleared?
SELECT
    policy_name,
    coalesce(window_break, prefix_break_why) AS broken,
    count(*) AS decisions,
    sum(tokens_used) AS tokens_used,
    sum(coalesce(window_tokens, prefix_prefix_tokens)) AS tokens_held,
    coalesce(sum(tool_results_freed_tokens), 0) AS tokens_cleared
FROM decisions
WHERE coalesce(window_tokens, prefix_prefix_tokens) IS NOT NULL
GROUP BY ALL
ORDER BY decisions DESC, policy_name, broken
LIMIT 100;
