-- How much of the queries occurred in the candidates, and how much of the candidates did excerpts show?
WITH excerpts AS (
    SELECT
        decision_id,
        count(*) AS excerpts,
        sum(tokens) AS tokens,
        sum(full_tokens) AS full_tokens
    FROM candidates
    WHERE fidelity = 'excerpt'
    GROUP BY decision_id
)

SELECT
    policy_name,
    count(*) AS decisions,
    sum(query_terms) AS terms,
    sum(query_matched) AS terms_matched,
    count(*) FILTER (query_matched = 0) AS unmatched,
    sum(query_passages) AS passages,
    coalesce(sum(excerpts), 0) AS excerpts,
    coalesce(sum(tokens), 0) AS excerpt_tokens,
    coalesce(sum(full_tokens), 0) AS excerpt_full_tokens
FROM decisions
LEFT JOIN excerpts USING (decision_id)
WHERE query_terms IS NOT NULL
GROUP BY ALL
ORDER BY decisions DESC, policy_name
LIMIT 100;
