import pytest

from pgtrial.hosts.operations import Operations
from pgtrial.knobs.memory_pressure import available_memory


class Told(Operations):
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, path: str, limit: int | None = None) -> str:
        assert path == "/proc/meminfo"
        return self.text


def test_available_memory_is_what_the_kernel_estimates():
    assert available_memory(Told("MemTotal:  16 kB\nMemFree:  2 kB\nMemAvailable:  8 kB\n")) == 8192


def test_kernel_that_does_not_say_is_an_error():
    with pytest.raises(OSError, match="has no line MemAvailable"):
        available_memory(Told("MemTotal:  16 kB\n"))


def test_this_machine():
    assert available_memory(Operations()) > 0
