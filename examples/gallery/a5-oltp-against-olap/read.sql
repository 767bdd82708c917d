-- What a session of the arm's mix reads: the scenario "read" of pgtrial's mix olap or oltp, word for word. Which of
-- them it is, a setting of the server says; to ask for it is one more short statement in each transaction of both arms.
SELECT (current_setting('gallery.mix') = 'olap')::integer AS is_olap \gset
\if :is_olap
-- A report over all accounts and the last seven days of history: the 100 branches with the largest balance.
SELECT bid, accounts, balance, average_balance, changes, change, changed_accounts, first_change, last_change
FROM (
    SELECT bid, count(*) AS accounts, sum(abalance) AS balance, avg(abalance) AS average_balance
    FROM pgbench_accounts
    GROUP BY bid
) AS account
LEFT JOIN (
    SELECT bid, count(*) AS changes, sum(delta) AS change, count(DISTINCT aid) AS changed_accounts,
           min(mtime) AS first_change, max(mtime) AS last_change
    FROM pgbench_history
    WHERE mtime >= CURRENT_TIMESTAMP - INTERVAL '7 days'
    GROUP BY bid
) AS history USING (bid)
ORDER BY balance DESC
LIMIT 100;
\else
-- The balance of the branch of a random account: one row.
\set aid random(1, 100000 * :scale)
SELECT branch.bbalance
FROM pgbench_accounts AS account
JOIN pgbench_branches AS branch USING (bid)
WHERE account.aid = :aid;
\endif
