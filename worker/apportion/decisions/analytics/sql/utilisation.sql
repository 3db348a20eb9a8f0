-- What share of its limit did each decision use, by policy and over time? Of those with a limit that were no duplicates.
WITH span AS (
    SELECT epoch_us(min(requested_at)) AS first_us,
           greatest(1, (epoch_us(max(requested_at)) - epoch_us(min(requested_at))) // 1000000) AS seconds
    FROM decisions
),
width AS (
    SELECT 1000000 * coalesce(
        list_filter(
            [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 86400, 604800, 2592000],
            lambda step: seconds / step <= 100
        )[1],
        seconds // 100
    ) AS us
    FROM span
)
SELECT
    make_timestamp(epoch_us(requested_at) // width.us * width.us) AS since,
    policy_name,
    count(*) AS decisions,
    sum(tokens_used) AS tokens_used,
    quantile_cont(1000 * tokens_used / tokens_limit, [0.1, 0.5, 0.9]) AS share_p10_p50_p90
FROM decisions, width
WHERE tokens_limit > 0 AND status <> 'duplicate'
GROUP BY since, policy_name
ORDER BY since, policy_name;
