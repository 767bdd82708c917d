"""A whole round: incident, question, experiment, verdict, change, and whether that brought what was promised.

On a server of one's own with a load, an index is dropped. What the user types then is run as it is here, and printed
with what it answers. It takes about a quarter of an hour.

    PYTHONPATH=src:tests python benchmarks/whole_round.py FOLDER [--minutes 3] [--blocks 6] [--duration 8]
"""

import argparse
import asyncio
import math
import shlex
import sys
import time
from pathlib import Path

from incident_server import watched_server

from pgtrial.watch.layout import MINUTE
from pgtrial.watch.windows import Window

INDEX = "CREATE INDEX event_customer ON event (customer)"


async def whole_minutes(minutes: int) -> str:
    """Wait for some; their window."""
    start = math.ceil(time.time() / MINUTE) * MINUTE
    window = Window(start, start + minutes * MINUTE)
    await asyncio.sleep(window.end + 10 - time.time())  # what was read last is on the disk
    return str(window)


async def type_in(root: Path, *words: str) -> int:
    """Run a command in the folder, and print it with what it answers."""
    print(f"\n$ {shlex.join(words)}", flush=True)
    command = [sys.executable, "-m", *words] if words[0] == "pgtrial" else list(words)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=root, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    answer, _ = await process.communicate()
    print(f"{answer.decode()}[exit code {process.returncode}]", flush=True)
    return process.returncode or 0


async def run(root: Path, options: argparse.Namespace) -> None:
    root.mkdir(parents=True)
    async with watched_server("round", root / "watch", options.postgres) as server:
        calm = await whole_minutes(options.minutes)
        await server.send("DROP INDEX event_customer")
        incident = await whole_minutes(options.minutes)
        await type_in(root, "pgtrial", "compare-times", "watch", calm, incident, "--output", "incident.html")
        await type_in(
            root, "pgtrial", "question", "watch", calm, incident, "--server", server.dsn, "--output", "questions"
        )
        await type_in(root, "pg_dump", "--format=custom", "--file=questions/copy.dump", server.dsn)
        path = root / "questions" / "question-rows.toml"
        if not path.exists():
            sys.exit("the windows were too short to tell which statement it is: --minutes 10")
        text = path.read_text(encoding="utf-8")
        text = text.replace('duration = "20s"', f'duration = "{options.duration}s"')
        path.write_text(text.replace("blocks = 6", f"blocks = {options.blocks}"), encoding="utf-8")
        print(path.read_text(encoding="utf-8"))
        await type_in(root, "pgtrial", "check", "questions/question-rows.toml")
        await type_in(root, "pgtrial", "run", "questions/question-rows.toml", "--quiet")
        (result,) = (root / "results").iterdir()
        await server.send(INDEX)
        after = await whole_minutes(options.minutes)
        promised = ["--promised", str(result.relative_to(root)), "--output", "after.html"]
        await type_in(root, "pgtrial", "compare-times", "watch", incident, after, *promised)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=int, default=3, help="of each time")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--duration", type=int, default=8, help="of each run, in seconds")
    parser.add_argument("--postgres")
    options = parser.parse_args()
    asyncio.run(run(options.folder, options))


if __name__ == "__main__":
    main()
