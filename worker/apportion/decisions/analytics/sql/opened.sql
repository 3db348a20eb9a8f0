-- What is to be told of the first 1,000 listed decisions, beside what the list tells?
SELECT
    decision_id, limits_budget_tokens, limits_max_tokens,
    session_before_spent_tokens, session_after_spent_tokens, session_after_prompts, session_after_expires_at,
    duplicate_of, len(evicted) + coalesce(evicted_unlisted, 0) AS evicted,
    list_sum(list_transform(unlisted, lambda each: each.count)) AS unlisted,
    groups, parts, constraints, run_phases
FROM decisions
SEMI JOIN (FROM listed LIMIT 1000) USING (decision_id);
