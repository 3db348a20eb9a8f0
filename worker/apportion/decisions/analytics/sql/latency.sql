-- How long did each phase take, and all of them together? In microseconds; of decisions that a worker made.
WITH phases AS (
    SELECT unnest(run_phases) AS each FROM decisions WHERE len(run_phases) > 0
),
durations AS (
    SELECT each.name AS phase, each.duration_us AS us FROM phases
    UNION ALL
    SELECT NULL, list_sum(list_transform(run_phases, lambda each: each.duration_us))
    FROM decisions WHERE len(run_phases) > 0
)
SELECT phase, count(*) AS decisions, quantile_disc(us, [0.5, 0.9, 0.99]) AS p50_p90_p99_us, max(us) AS max_us
FROM durations
GROUP BY phase
ORDER BY phase NULLS FIRST
LIMIT 50;
