"""A load of its own: as many clients as pgtrial asks for, each of which reads one account after the other."""

import json
import os
import random
import subprocess
import threading
import time


def work(seed: int) -> None:
    draw = random.Random(seed)
    psql = subprocess.Popen(["psql", "-qAtX"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert psql.stdin
    assert psql.stdout
    while True:
        begun = time.monotonic()
        psql.stdin.write(f"SELECT abalance FROM pgbench_accounts WHERE aid = {draw.randint(1, 100000)};\n")
        psql.stdin.write("\\echo failed :ERROR\n")  # a statement that fails has no line of its own
        psql.stdin.flush()
        last = next((line for line in psql.stdout if line.startswith("failed ")), "")
        result = {"latency": time.monotonic() - begun} if last == "failed false\n" else {"failed": True}
        print(json.dumps({"t": time.time(), **result}) + "\n", end="", flush=True)


for client in range(int(os.environ["PGTRIAL_CLIENTS"])):
    threading.Thread(target=work, args=(int(os.environ["PGTRIAL_SEED"]) + client,)).start()
