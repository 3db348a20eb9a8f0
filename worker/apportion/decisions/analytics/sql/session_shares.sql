-- How much of their tokens have sessions spent, in tenths? Of sessions that have a bound.
WITH sessions AS (
    SELECT arg_max(
        {'spent_tokens': session_after_spent_tokens, 'max_tokens': limits_max_tokens},
        (session_after_last_event_at, session_after_sequence)
    ) AS latest
    FROM decisions
    GROUP BY tenant, session_id
)
SELECT least(9, 10 * latest.spent_tokens // latest.max_tokens) AS tenth, count(*) AS sessions
FROM sessions
WHERE latest.max_tokens > 0
GROUP BY tenth
ORDER BY tenth;
