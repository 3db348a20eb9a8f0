-- Which composed requests did a provider count for these models, and which items did they have?
WITH counted AS (
    SELECT tenant, session_id, request_id, used_at, gen_ai_usage_input_tokens AS input_tokens
    FROM usage
    WHERE list_contains($names, coalesce(gen_ai_request_model, gen_ai_response_model, ''))
        AND gen_ai_usage_input_tokens > 0
    QUALIFY row_number() OVER (PARTITION BY tenant, session_id, request_id ORDER BY used_at, "offset") = 1
    ORDER BY used_at DESC, tenant, session_id, request_id
    LIMIT 20000
),
selected AS (
    SELECT decision_id, list({'id': id, 'kind': kind, 'tokens': tokens}) AS items
    FROM candidates WHERE outcome = 'selected' GROUP BY decision_id
)
SELECT
    request_id, input_tokens, used_at, policy_digest, policy_strategy, counter_name, model_digest, tokens_used, items
FROM decisions JOIN counted USING (tenant, session_id, request_id) LEFT JOIN selected USING (decision_id)
WHERE status = 'composed'
ORDER BY used_at, tenant, session_id, request_id;
