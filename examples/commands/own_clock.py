"""As load.py, but with a clock of its own, for turns: it looks often, and what is missing between two looks is time in
which it stood still. The first argument is the statement, in which %d is a random number from 1 to 100000.
"""

import json
import os
import random
import selectors
import subprocess
import sys
import threading
import time

LOOK, MOST = 0.002, 0.02  # s between two looks, and at most counted for it
STATEMENT = sys.argv[1] if len(sys.argv) > 1 else "SELECT abalance FROM pgbench_accounts WHERE aid = %d"


class Clock:
    """Goes on by what has passed since the last look, but not by much."""

    def __init__(self) -> None:
        self.now, self.last = 0.0, time.monotonic()

    def look(self) -> float:
        now = time.monotonic()
        self.now += min(now - self.last, MOST)
        self.last = now
        return self.now


def work(seed: int) -> None:
    draw, clock = random.Random(seed), Clock()
    psql = subprocess.Popen(["psql", "-qAtX"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert psql.stdin
    assert psql.stdout
    answers = selectors.DefaultSelector()
    answers.register(psql.stdout, selectors.EVENT_READ)
    while True:
        begun = clock.look()
        psql.stdin.write(b"%s;\n\\echo failed :ERROR\n" % (STATEMENT % draw.randint(1, 100000)).encode())
        psql.stdin.flush()
        answer, part = b"", b"\n"
        while part and not answer.endswith((b"failed false\n", b"failed true\n")):
            while not answers.select(LOOK):
                clock.look()
            part = os.read(psql.stdout.fileno(), 65536)
            answer += part
        result = {"latency": clock.look() - begun} if answer.endswith(b"failed false\n") else {"failed": True}
        print(json.dumps({"t": time.time(), **result}) + "\n", end="", flush=True)


for client in range(int(os.environ["PGTRIAL_CLIENTS"])):
    threading.Thread(target=work, args=(int(os.environ["PGTRIAL_SEED"]) + client,)).start()
