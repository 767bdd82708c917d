from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.cli.check import HostReport, check_host, host_data, intent_of, render_host
from pgtrial.cli.checked import check_text
from pgtrial.engine.disturbances.base import Disturbance, Intent, Situation
from pgtrial.errors import ConnectError
from pgtrial.model.caveat import Severity

TEXT = """\
format = 1
experiment = { name = "e" }
dataset = { scale = 100 }
[target.postgresql]
fsync = "off"
[workload]
mix = "tpcb-like"
clients = [2, 32]
threads = 4
[arms.a]
[arms.b.sysctl]
"vm.swappiness" = 1
[arms.b.storage]
data = "/usr"
wal = "/tmp"
"""
FACTS = {
    "machine/CPUs": "8",
    "machine/CPU": "Some CPU",
    "machine/memory": "15.6 GB",
    "kernel/release": "6.1.0",
}
PLACE = {"storage/data directory": "/srv", "storage/data file system": "ext4", "storage/data device": "sda"}
GOVERNOR = Disturbance(
    code="cpu-governor",
    severity=Severity.WARNING,
    text="The CPU governor is powersave, which makes this a sentence that is longer than one line of the terminal.",
    why="The CPUs change their speed with the load.",
    remedy="Keep them fast:",
    command="echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
)
BATTERY = Disturbance(
    code="battery", severity=Severity.INFO, text="On battery.", why="It is slow.", remedy="Plug it in."
)


def report(*remarks: Disturbance, name: str = "local") -> HostReport:
    situation = Situation(intent=Intent(), before={}, facts=FACTS, places=(PLACE,))
    return HostReport(name=name, situation=situation, remarks=remarks)


def test_what_the_experiment_will_do_is_kept_in_mind() -> None:
    intent = intent_of(check_text(TEXT, "e.toml", Path("/")))

    assert intent.places == (("/var/tmp", "/var/tmp"), ("/usr", "/tmp"))
    assert intent.bytes_needed > 4 * 1.4e9  # two copies in each of two places
    assert (intent.clients, intent.threads) == (32, 4)
    assert intent.varies("sysctl", "vm.swappiness")
    assert intent.varies("storage")
    assert not intent.varies("transparent_huge_pages")
    assert {arm: knobs["postgresql"] for arm, knobs in intent.knobs.items()} == {
        "a": {"fsync": "off"},
        "b": {"fsync": "off"},
    }


def test_programs_that_the_notes_tell_about_are_not_looked_for_again() -> None:
    text = TEXT.replace("[arms.a]", '[arms.a.server]\npostgres = "/no/where"')

    assert "/no/where" not in intent_of(check_text(text, "e.toml", Path("/"))).postgres


def test_remarks_are_told_with_reason_and_remedy_in_80_columns() -> None:
    text = render_host(report(GOVERNOR, BATTERY))

    assert (
        text
        == """\
this host: 8 CPUs (Some CPU), 15.6 GB of memory, Linux 6.1.0, data in /srv on
  ext4 (sda)
  ! The CPU governor is powersave, which makes this a sentence that is longer
    than one line of the terminal.
    The CPUs change their speed with the load.
    → Keep them fast:
        echo performance |
          sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor
  i On battery.
    It is slow.
    → Plug it in."""
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_command_that_fits_stays_on_its_line() -> None:
    text = render_host(report(replace(GOVERNOR, command="echo 0 | sudo tee /proc/sys/x")))

    assert text.endswith("\n        echo 0 | sudo tee /proc/sys/x")


def test_a_quiet_host_is_told_to_be_quiet() -> None:
    assert render_host(report(name="ssh://db")).startswith("ssh://db: 8 CPUs")
    assert "Nothing was found that would disturb a measurement." in render_host(report())


def test_a_host_of_which_nothing_is_known_is_told_as_such() -> None:
    bare = HostReport(name="local", situation=Situation(intent=Intent(), before={}, facts={}, places=({},)))

    assert render_host(bare).splitlines()[0] == "this host: ? CPUs"


def test_a_host_that_cannot_be_reached_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str | None) -> None:
        raise ConnectError(f"cannot reach {address}")

    monkeypatch.setattr("pgtrial.cli.check.open_host", refuse)
    checked = check_text(
        TEXT.replace("[target.postgresql]", '[target]\nhost = "ssh://db"\n[target.postgresql]'), "e", Path("/")
    )
    found = check_host(checked, "ssh://db")

    assert host_data(found) == {
        "name": "ssh://db",
        "reached": False,
        "error": "cannot reach ssh://db",
        "remarks": [],
    }
    assert render_host(found) == "ssh://db: not looked at: cannot reach ssh://db"


def test_of_a_server_that_is_there_already_only_it_knows_where_its_data_are() -> None:
    text = TEXT.replace("[target.postgresql]", '[target]\nkind = "server"\nrestart = ["true"]\n[target.postgresql]')
    text = text.partition("[arms.b.storage]")[0]
    intent = intent_of(check_text(text, "e.toml", Path("/")))

    assert (intent.places, intent.postgres) == ((), ())
