SELECT state, count(*), max(finished)
FROM job
GROUP BY state;
\sleep 1 s
