-- Why were candidates left out? All of them, those without a row of their own too.
SELECT each.reason AS reason, sum(each.count) AS candidates, count(*) AS decisions
FROM (SELECT unnest(reasons) AS each FROM decisions)
GROUP BY reason
ORDER BY candidates DESC, reason;
