-- How many candidates would so many tokens more of the bound that refused them have admitted?
WITH margins AS (
    SELECT reason, "group", more, count(*) AS candidates, sum(tokens) AS tokens
    FROM candidates
    WHERE more IS NOT NULL
    GROUP BY ALL
)
SELECT
    reason,
    "group",
    list_filter(
        [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000],
        lambda step: more <= step
    )[1] AS more_at_most,
    sum(candidates) AS candidates,
    sum(tokens) AS tokens
FROM margins
GROUP BY ALL
ORDER BY reason, "group", more_at_most
LIMIT 2000;
