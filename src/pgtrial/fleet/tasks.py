"""What a worker does: it has the engine run blocks, in a process of its own that stays for the next block.

Only texts go in and out: a request and an answer, both JSON. Importing this needs nothing of the fleet's extra, and
nothing of the engine.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field

from pgtrial.safe_text import parse_json

_LONGEST = 16 << 20  # bytes of an answer: of each file there is a checksum


@dataclass(slots=True, kw_only=True)
class EngineProcess:
    """The engine for one host's folder; what it is told and what it answers are lines on pipes."""

    process: "subprocess.Popen[bytes]"
    doing: str = field(default="", init=False)

    @classmethod
    def start(cls, folder: str, permission: str) -> "EngineProcess":
        command = [sys.executable, "-P", "-m", "pgtrial.fleet.session", folder]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        engine = cls(process=process)
        engine._write(permission)
        return engine

    def run(self, block: int) -> dict[str, object]:
        """Have a block run; the answer."""
        self._write(str(block))
        assert self.process.stdout is not None
        while line := self.process.stdout.readline(_LONGEST):
            answer = parse_json(line)
            if not isinstance(answer, dict):
                break
            if "doing" not in answer:
                return answer
            self.doing = str(answer["doing"])
        status = self.process.wait()
        return {
            "failed": f"the engine ended with status {status}",
            "detail": self.doing,
            "hint": "",
            "may_return": True,
        }

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has something to say about that


_ENGINES: dict[str, EngineProcess] = {}  # by folder


def run_block(request: str) -> str:
    """Run a block of a host's folder: {"folder": …, "permission": …, "block": …}; the answer, with both in it."""
    wanted = parse_json(request)
    folder, block = str(wanted["folder"]), int(wanted["block"])
    engine = _ENGINES.get(folder)
    if engine is None:
        engine = _ENGINES[folder] = EngineProcess.start(folder, str(wanted["permission"]))
    answer = engine.run(block)
    if "failed" in answer:
        del _ENGINES[folder]
    return json.dumps({**answer, "folder": folder, "block": block})
