-- Which sessions are nearest to the end of their tokens, and for how many prompts more will those last?
WITH sessions AS (
    SELECT
        tenant, session_id,
        arg_max(
            {
                'spent_tokens': session_after_spent_tokens,
                'max_tokens': limits_max_tokens,
                'prompts': session_after_prompts
            },
            (session_after_last_event_at, session_after_sequence)
        ) AS latest,
        max(requested_at) AS last_at,
        count(*) FILTER (status = 'exhausted') AS exhausted
    FROM decisions
    GROUP BY ALL
)
SELECT
    tenant, session_id, latest.spent_tokens, latest.max_tokens, latest.prompts, last_at, exhausted,
    CASE WHEN latest.spent_tokens > 0
        THEN greatest(0, (latest.max_tokens - latest.spent_tokens) * latest.prompts // latest.spent_tokens)
    END AS prompts_left
FROM sessions
WHERE latest.max_tokens > 0
ORDER BY latest.spent_tokens / latest.max_tokens DESC, tenant, session_id
LIMIT 100;
