"""Which hosts workers offer, by their resources."""

from pgtrial.fleet.offers import find_offers, fleet_of


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
