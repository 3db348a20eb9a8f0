-- What was refused, and for what code? Dead letters, and records that no table could hold.
SELECT error_code, 'dead letter' AS what, count(*) AS records, sum(value_bytes) AS bytes
FROM dead_letters
GROUP BY ALL
UNION ALL
SELECT error_code, 'unreadable', count(*), sum(value_bytes)
FROM unreadable
GROUP BY ALL
ORDER BY records DESC, error_code, what
LIMIT 100;
