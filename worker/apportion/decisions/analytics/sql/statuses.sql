-- How were requests answered?
SELECT status, count(*) AS decisions, sum(tokens_used) AS tokens_used
FROM decisions
GROUP BY status
ORDER BY decisions DESC, status;
