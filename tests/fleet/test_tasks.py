"""What a worker makes of the answers of its engine."""

import subprocess
import sys

import pytest

from pgtrial.fleet.tasks import EngineProcess

# It answers its first order with a text, and goes on until its input ends.
_ANSWERS = "import sys; sys.stdin.readline(); print(sys.argv[1], end='', flush=True); sys.stdin.read()"
# The same, but for that it ends then.
_ENDS = "import sys; sys.stdin.readline(); print(sys.argv[1], end='', flush=True)"


def start(program: str, answer: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", program, answer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("program", "answer"), [(_ENDS, ""), (_ENDS, '{"done": 1, "fi'), (_ANSWERS, "[1]\n"), (_ANSWERS, "nonsense\n")]
)
def test_an_engine_that_gives_no_whole_answer_has_ended(program: str, answer: str) -> None:
    with start(program, answer) as process:
        found = EngineProcess(process=process)
        told = found.run(1)

    assert str(told["failed"]).startswith("the engine ended with status")
    assert told["may_return"]
    assert process.returncode is not None


def test_an_answer_is_what_the_engine_says() -> None:
    with start(_ANSWERS, '{"doing": "data"}\n{"done": 1, "files": {}}\n') as process:
        found = EngineProcess(process=process)

        assert found.run(1) == {"done": 1, "files": {}}
        assert found.doing == "data"
