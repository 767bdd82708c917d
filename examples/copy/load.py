"""Adds a thousand rows in each transaction, by the statement that the argument names: "insert" or "copy"."""

import json
import os
import random
import subprocess
import sys
import threading
import time

ROWS = 1000


def insert(rows: list[tuple[int, float]]) -> str:
    added = "".join(f"INSERT INTO measurement (sensor, value) VALUES ({sensor}, {value});\n" for sensor, value in rows)
    return f"BEGIN;\n{added}COMMIT;\n"


def copy(rows: list[tuple[int, float]]) -> str:
    added = "".join(f"{sensor}\t{value}\n" for sensor, value in rows)
    return f"BEGIN;\nCOPY measurement (sensor, value) FROM STDIN;\n{added}\\.\nCOMMIT;\n"


def work(seed: int) -> None:
    draw = random.Random(seed)
    write = {"insert": insert, "copy": copy}[sys.argv[1]]
    psql = subprocess.Popen(
        ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert psql.stdin
    assert psql.stdout
    while True:
        script = write([(draw.randint(1, 1000), draw.random()) for _ in range(ROWS)])
        begun = time.monotonic()
        psql.stdin.write(f"{script}\\echo done\n")
        psql.stdin.flush()
        result = {"latency": time.monotonic() - begun} if psql.stdout.readline() else {"failed": True}
        print(json.dumps({"t": time.time(), **result}) + "\n", end="", flush=True)


for client in range(int(os.environ["PGTRIAL_CLIENTS"])):
    threading.Thread(target=work, args=(int(os.environ["PGTRIAL_SEED"]) + client,)).start()
