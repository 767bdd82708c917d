import pytest

from pgtrial.errors import SpecError
from pgtrial.fleet.hosts_file import find_offers, fleet_of, parse_fleet, read_fleet


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


def worker(*resources: str, count: float = 1, nanny: str | None = None) -> dict[str, object]:
    return {"resources": dict.fromkeys(resources, count), "nanny": nanny}


def test_a_host_is_the_workers_own_machine_or_one_that_it_reaches():
    offers, told = find_offers(
        {
            "tls://w1:1": worker("host:db1", "GPU"),
            "tls://w2:1": worker("host:db2@ssh://me@db2:2222", "host:db3@ssh://db3"),
            "tls://w3:1": worker(),
        }
    )

    assert told == ()
    assert [(name, offer.host.where, offer.address) for name, offer in offers.items()] == [
        ("db1", "local", "tls://w1:1"),
        ("db2", "ssh://me@db2:2222", "tls://w2:1"),
        ("db3", "ssh://db3", "tls://w2:1"),
    ]
    assert [host.name for host in fleet_of(tuple(offers.values())).host] == ["db1", "db2", "db3"]


def test_what_cannot_be_a_host_is_said():
    offers, told = find_offers({"w": worker("host:", "host:a b", "host:a@db1", "host:-a")})

    assert offers == {}
    assert len(told) == 4
    assert all("which is not host:NAME or host:NAME@ssh://…" in text for text in told)


def test_a_host_has_one_token_or_gets_no_blocks():
    offers, told = find_offers({"w": worker("host:a", count=2)})

    assert offers == {}
    assert told == ("a gets no blocks: worker w offers it 2 times, not once.",)


def test_a_host_that_two_workers_offer_gets_its_blocks_by_one():
    offers, told = find_offers({"w2": worker("host:a@ssh://a"), "w1": worker("host:a@ssh://a")})

    assert offers["a"].address == "w1"
    assert told == ("a is offered by two workers; the one at w2 gets no blocks.",)


def test_a_nanny_is_refused_on_the_host_itself_alone():
    offers, told = find_offers({"w": worker("host:a", "host:b@ssh://b", nanny="tls://n")})

    assert list(offers) == ["b"]
    assert "Start it with --no-nanny." in told[0]
