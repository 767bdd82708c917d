#!/bin/sh
# One client that reads a table again and again, each time in a session of its own.
while :; do
    begun=$(date +%s.%N)
    if psql -qAtX -c 'SELECT count(*) FROM pgbench_branches' >/dev/null; then
        ended=$(date +%s.%N)
        awk -v begun="$begun" -v ended="$ended" \
            'BEGIN { printf "{\"t\": %.6f, \"latency\": %.6f}\n", ended, ended - begun }'
    else
        echo "{\"t\": $(date +%s.%N), \"failed\": true}"
    fi
done
