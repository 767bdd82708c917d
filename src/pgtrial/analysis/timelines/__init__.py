"""Second by second: throughput of a run beside what the machine and the server did."""
