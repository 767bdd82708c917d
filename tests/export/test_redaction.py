import pytest

from pgtrial.export.redaction import Names, PrivateNames, Redaction, lists, parse_tree, strings, with_strings

ALL = frozenset(Redaction)


def names(*texts: str, kinds: frozenset[Redaction] = ALL, kept: frozenset[str] = frozenset(), query: str = "") -> Names:
    """Names that know what the texts give away."""
    known = PrivateNames(kinds=kinds)
    for text in texts:
        known.learn(text)
    if query:
        known.learn_query(query)
    return Names(known=known, kept=kept)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("host=db7.corp.example user=alice password=hunter2", "host=host1 user=user password=secret1"),
        ("postgresql://bob:s3cr3t@db7.corp.example:5432/app", "postgresql://user:secret1@host1:5432/app"),
        ("ssh://alice@bench-12:22", "ssh://user@host1:22"),
        ("ssh://[2001:db8::5]:22", "ssh://host1:22"),
        ("nas01:/export/pg", "host1:/export/pg"),
        ("alice@bench-12", "user@host1"),
        (
            'connection to server at "db7" (10.1.2.3), port 5432 failed',
            'connection to server at "host1" (host2), port 5432 failed',
        ),
        ('could not translate host name "db7.corp" to address', 'could not translate host name "host1" to address'),
        ("10.1.2.3 and 10.1.2.4 and 10.1.2.3", "host1 and host2 and host1"),
        ("fe80::1:2", "host1"),
        ("/home/alice/pg", "/home/user/pg"),
        ("CREATE ROLE app PASSWORD 'it''s'", "CREATE ROLE app PASSWORD 'secret1'"),
        ('{"api_key": "abcdef123"}', '{"api_key": "secret1"}'),
        ("curl -H 'Authorization: Bearer abcdefghij0123' x", "curl -H 'Authorization: Bearer secret1' x"),
        ("aws s3 cp AKIAABCDEFGHIJKLMNOP", "aws s3 cp secret1"),
        ("curl -H 'X-Auth-Token: 9f8e7d6c' x", "curl -H 'X-Auth-Token: secret1' x"),
        ("restart-pg --password hunter2 --fast", "restart-pg --password secret1 --fast"),
        ("sshpass -p hunter2 ssh", "sshpass -p secret1 ssh"),
        ("Uid=app;Pwd=hunter2;x=1", "Uid=app;Pwd=secret1;x=1"),
        ("CREATE ROLE app PASSWORD $a$it's$a$", "CREATE ROLE app PASSWORD $a$secret1$a$"),
        ("git clone ghp_abcdefghij0123456789abcd", "git clone secret1"),
        ("md5" + "0123456789abcdef" * 2, "secret1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest", "secret1\nrest"),
        ("LINE 1: SELECT name FROM customers\n               ^", "LINE 1: query1"),
        ("statement: SELECT name FROM customers", "statement: query1"),
        ("pgbench: detail: Query was: SELECT name FROM customers", "pgbench: detail: Query was: query1"),
        ('ERROR:  relation "customers" does not exist', 'ERROR:  relation "?" does not exist'),
    ],
)
def test_what_gives_itself_away_is_taken_out(text: str, cleaned: str) -> None:
    assert names(text).clean(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "PostgreSQL 15.7 on x86_64, compiled by gcc 12.2.0",
        "6.1.0-18-amd64",
        "127.0.0.1, ::1, localhost, 0.0.0.0",
        "2026-01-20 10:15:00",
        "password_encryption = scram-sha-256",
        "shared_buffers is 128MB",
        "psql --no-password --dbname app",
        "PWD=/srv/pg",
        "a token: it",
        "00:1b:21:3c:4d:5e",
        "SELECT 1::int, a.b.c.d FROM t",
        "automatic vacuum of table",
        "",
    ],
)
def test_what_tells_nothing_stays(text: str) -> None:
    assert names(text).clean(text) == text


def test_what_is_known_from_one_place_is_taken_out_of_all() -> None:
    found = names("host=db7.corp.example password=hunter2xyz")

    assert found.clean("DB7 said hunter2xyz to db7.corp.example.") == "host1 said secret1 to host2."
    assert found.clean("db70, my-db7 and db7-old are others") == "db70, my-db7 and db7-old are others"


def test_the_same_thing_has_the_same_name_and_another_one_another() -> None:
    found = names("host=a1 host=b2")

    assert [found.clean(text) for text in ("a1", "b2", "a1")] == ["host1", "host2", "host1"]
    assert found.query("SELECT 1") == "query1"
    assert found.query(" SELECT 1\n") == "query1"
    assert found.query("SELECT 2") == "query2"
    assert found.query("") == ""


@pytest.mark.parametrize(
    ("kind", "cleaned"),
    [
        (Redaction.SECRETS, "host=db7 password=secret1 statement: SELECT x"),
        (Redaction.HOSTS, "host=host1 password=hunter2 statement: SELECT x"),
        (Redaction.QUERIES, "host=db7 password=hunter2 statement: query1"),
    ],
)
def test_only_what_was_asked_for_is_taken_out(kind: Redaction, cleaned: str) -> None:
    text = "host=db7 password=hunter2 statement: SELECT x"

    assert names(text, kinds=frozenset({kind})).clean(text) == cleaned


def test_settings_that_hold_commands_are_secrets_as_a_whole() -> None:
    found = names()

    assert found.clean("cp %p /mnt/%f", "archive_command") == "secret1"
    assert found.clean("cp %p /mnt/%f", "restore_command") == "secret1"
    assert found.clean("(disabled)", "archive_command") == "(disabled)"
    assert found.clean("scram-sha-256", "password_encryption") == "scram-sha-256"
    assert found.clean("15/main", "cluster_name") == "host1"


def test_scripts_are_known_by_their_lines() -> None:
    found = names(query="SELECT name\n  FROM customers;\nEND;\n")

    assert found.clean("syntax error in FROM customers; at END;") == "syntax error in query1 at END;"


def test_names_that_users_gave_stay_and_are_reported() -> None:
    found = names("host=large host=db7", kept=frozenset({"large"}))

    assert found.clean("large on db7") == "large on host1"
    assert found.in_names(["large", "small", "db7-test"]) == ("large", "db7-test")


def test_tables_of_postgresql_and_pgbench_keep_their_names() -> None:
    found = names()

    assert found.relation("public.customers") == found.relation("customers") == "relation1"
    assert found.relation("pgbench_accounts") == "pgbench_accounts"
    assert found.relation("pg_catalog.pg_class") == "pg_catalog.pg_class"
    assert found.relation("") == ""


def test_a_text_that_is_cleaned_twice_stays_as_it_is() -> None:
    text = "host=db7 user=alice password=hunter2 statement: SELECT x"
    found = names(text)

    assert found.clean(found.clean(text)) == found.clean(text)


def test_lists_of_strings_are_found_wherever_they_stand() -> None:
    tables = {"target": {"restart": ["run", "--token", "abc"]}, "x": [{"y": ["a"]}, 1], "clients": [1, 2], "none": []}

    assert list(lists(tables)) == [["run", "--token", "abc"], ["a"]]


def test_strings_come_with_the_keys_whose_values_they_are() -> None:
    tree = {"a": "x", "b": {"c": ["y", {"d": "z"}], "n": 1}, "e": None}

    assert list(strings(tree)) == [("a", "x"), ("c", "y"), ("d", "z")]
    assert with_strings(tree, lambda text, key: f"{key}{text}") == {
        "a": "ax",
        "b": {"c": ["cy", {"d": "dz"}], "n": 1},
        "e": None,
    }


@pytest.mark.parametrize(
    ("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("[x", None), ("1", None), ("", None)]
)
def test_only_objects_and_lists_are_taken_for_json(text: str, found: object) -> None:
    assert parse_tree(text) == found
