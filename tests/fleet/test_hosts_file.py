import pytest

from pgtrial.errors import SpecError
from pgtrial.fleet.hosts_file import parse_fleet, read_fleet


def problems(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(SpecError) as caught:
        parse_fleet(text, "hosts.toml")
    assert all(problem.message for problem in caught.value.problems)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_hosts_are_read_in_their_order() -> None:
    fleet = parse_fleet(
        '[[host]]\nname = "db1"\nssh = "ssh://me@db1:2222"\nwork_directory = "/srv"\n'
        '[[host]]\nname = "me"\nlocal = true\n',
        "hosts.toml",
    )

    assert [(host.name, host.address, host.where) for host in fleet.host] == [
        ("db1", "ssh://me@db1:2222", "ssh://me@db1:2222"),
        ("me", None, "local"),
    ]
    assert fleet.find("db1").work_directory == "/srv"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [(None, '"host" is missing')]),
        ("host = []", [(1, "there is no host in it")]),
        ('[[host]]\nname = "a"\nsssh = "ssh://a"', [(3, 'unrecognized key "sssh"')]),
        ('[[host]]\nname = "a"', [(1, "a host is reached by")]),
        ('[[host]]\nname = "a"\nlocal = true\nuser = "me"', [(4, 'unrecognized key "user"')]),
        ("[[host]]\nlocal = true", [(1, '"name" is missing')]),
        ('[[host]]\nname = "../a"\nlocal = true', [(2, '"../a" is not a name of a host')]),
        ('[[host]]\nname = "a"\nssh = "a; rm -rf /"', [(3, 'expected an address such as "ssh://user@host:22"')]),
        ('[[host]]\nname = "a"\nssh = "ssh://-oProxyCommand=x"', [(3, '"-oProxyCommand=x" is not a name of a host')]),
        ('[[host]]\nname = "a"\nlocal = false', [(3, '"local" is true or left out')]),
        ('[[host]]\nname = "a"\nlocal = true\nwork_directory = "data"', [(4, '"data" is not an absolute path')]),
        (
            '[[host]]\nname = "a"\nlocal = true\n[[host]]\nname = "A"\nssh = "ssh://a"',
            [(5, 'a host named "A" is there already')],
        ),
        (
            '[[host]]\nname = "a"\nssh = "ssh://x"\n[[host]]\nname = "b"\nssh = "ssh://x"',
            [(6, '"ssh://x" is the address of two hosts')],
        ),
        ("[[host]\n", [(1, "not TOML")]),
        ("host = 3", [(1, '"host" is a list of tables')]),
        ('[host]\nname = "a"\nlocal = true', [(1, '"host" is a list of tables')]),
    ],
)
def test_each_problem_has_its_line(text: str, found: list[tuple[int | None, str]]) -> None:
    told = problems(text)

    for line, start in found:
        assert any(at == line and message.startswith(start) for at, message in told), told


def test_all_problems_come_at_once() -> None:
    assert len(problems('[[host]]\nname = "-"\nlocal = true\n[[host]]\nname = "b"\nlocal = 3\n')) == 2


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path) -> None:
    with pytest.raises(SpecError, match=r'list of hosts ".*hosts.toml" cannot be read: No such file or directory'):
        read_fleet(tmp_path / "hosts.toml")
