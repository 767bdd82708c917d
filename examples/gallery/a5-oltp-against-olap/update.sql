-- What a session of the arm's mix updates: the scenario "update" of pgtrial's mix olap or oltp, word for word. Which of
-- them it is, a setting of the server says; to ask for it is one more short statement in each transaction of both arms.
SELECT (current_setting('gallery.mix') = 'olap')::integer AS is_olap \gset
\if :is_olap
-- One random account: lock it unless another session holds it, and change its balance.
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
UPDATE pgbench_accounts
SET abalance = abalance + :delta
WHERE aid IN (SELECT aid FROM pgbench_accounts WHERE aid = :aid FOR UPDATE SKIP LOCKED);
\else
-- Ten random accounts, in one transaction: lock each unless another session holds it, and change its balance.
\set aid1 random(1, 100000 * :scale)
\set aid2 random(1, 100000 * :scale)
\set aid3 random(1, 100000 * :scale)
\set aid4 random(1, 100000 * :scale)
\set aid5 random(1, 100000 * :scale)
\set aid6 random(1, 100000 * :scale)
\set aid7 random(1, 100000 * :scale)
\set aid8 random(1, 100000 * :scale)
\set aid9 random(1, 100000 * :scale)
\set aid10 random(1, 100000 * :scale)
\set delta random(-5000, 5000)
UPDATE pgbench_accounts
SET abalance = abalance + :delta
WHERE aid IN (
    SELECT aid
    FROM pgbench_accounts
    WHERE aid IN (:aid1, :aid2, :aid3, :aid4, :aid5, :aid6, :aid7, :aid8, :aid9, :aid10)
    FOR UPDATE SKIP LOCKED
);
\endif
