-- What was left out and why, by group (a lane, say) and kind? Of the candidates that have a row.
SELECT
    "group", kind, reason,
    count(*) AS candidates,
    coalesce(sum(tokens), 0) AS tokens
FROM candidates
WHERE outcome = 'omitted'
GROUP BY ALL
ORDER BY candidates DESC, "group", kind, reason
LIMIT 2000;
