-- All pages are looked at again, those that have been frozen before as well.
\sleep 10 s
VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) pgbench_accounts;
