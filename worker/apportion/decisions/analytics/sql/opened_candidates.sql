-- What became of their candidates? By rank, the first 1,000 of each decision.
SELECT
    decision_id,
    list([id, kind, "group", outcome, fidelity, reason, bound, "constraint"] ORDER BY rank)[:1000] AS words,
    list([score, tokens, full_tokens, needed, "left", more, limit_left] ORDER BY rank)[:1000] AS numbers
FROM candidates
SEMI JOIN (FROM listed LIMIT 1000) USING (decision_id)
GROUP BY decision_id;
