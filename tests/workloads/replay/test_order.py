import pytest

from pgtrial.workloads.replay.log import read_log
from pgtrial.workloads.replay.order import can_wait, put_in_order
from pgtrial.workloads.replay.relations import Relations

NONE = Relations(parts={}, keys={})


def awaited(path, relations: Relations = NONE) -> dict[str, list[set[str]]]:
    """By session, for each of its statements the sessions whose transactions it waits for."""
    found = {}
    for name, steps in put_in_order(read_log(path).sessions, relations).items():
        found[name] = []
        for step in steps:
            others = [*step.needs, *(one for line, count in step.behind for one in line.transactions[:count])]
            found[name].append({one.session for one in others if can_wait(step.transaction, one)})
    return found


def test_a_statement_waits_for_whom_wrote_its_row_and_for_nobody_else(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: UPDATE stock SET n = n - 1 WHERE item = 17"),
            (1, "b", "statement: UPDATE stock SET n = n - 2 WHERE item = 18"),
            (2, "c", "statement: SELECT n FROM stock WHERE item = 17"),
            (3, "d", "statement: SELECT n FROM stock WHERE item = 19"),
            (4, "e", "statement: SELECT n FROM other WHERE item = 17"),
            (5, "f", "statement: SELECT sum(n) FROM stock"),
        ]
    )

    assert awaited(path) == {"a": [set()], "b": [set()], "c": [{"a"}], "d": [set()], "e": [set()], "f": [{"a", "b"}]}


def test_a_single_statement_that_writes_the_same_row_waits(write_log) -> None:
    update = "statement: UPDATE stock SET n = n - 1 WHERE item = 17"

    assert awaited(write_log([(0, "a", update), (1, "b", update)])) == {"a": [set()], "b": [{"a"}]}


def test_values_of_parameters_count_as_those_of_texts(write_log) -> None:
    path = write_log(
        [
            (0, "a", "execute <unnamed>: DELETE FROM stock WHERE item = $1", "LOG", "parameters: $1 = '17'"),
            (1, "b", "execute <unnamed>: SELECT n FROM stock WHERE item = $1", "LOG", "parameters: $1 = '17'"),
            (2, "c", "execute <unnamed>: SELECT n FROM stock WHERE item = $1", "LOG", "parameters: $1 = '1'"),
            (3, "d", "statement: SELECT n FROM stock WHERE name = 'x' AND item = 17"),
        ]
    )

    assert awaited(path) == {"a": [set()], "b": [{"a"}], "c": [set()], "d": [{"a"}]}


def test_transactions_of_the_same_millisecond_do_not_wait_for_each_other(write_log) -> None:
    """Both read a table into which the other one inserts, and neither had ended before."""
    statements = {name: ("BEGIN", f"INSERT INTO stock VALUES ('{name}')", "SELECT n FROM stock") for name in "ab"}
    rows = [(1, name, f"statement: {statements[name][number]}") for number in range(3) for name in "ab"]
    ends = [(1, name, "statement: COMMIT") for name in "ba"]

    assert awaited(write_log([*rows, *ends])) == {"a": [set()] * 4, "b": [set()] * 4}


@pytest.mark.parametrize("comment", ["", "/* of: the app */ "])
def test_a_transaction_counts_from_its_end_on(write_log, comment) -> None:
    path = write_log(
        [
            (0, "a", f"statement: {comment}BEGIN"),
            (1, "a", "statement: UPDATE stock SET n = 0 WHERE item = 17"),
            (2, "b", "statement: SELECT n FROM stock WHERE item = 17"),
            (3, "a", f"statement: {comment}COMMIT"),
            (4, "b", "statement: SELECT n FROM stock WHERE item = 17"),
        ]
    )

    assert awaited(path)["b"] == [set(), {"a"}]


@pytest.mark.parametrize("end", ["ROLLBACK TO SAVEPOINT s", "rollback work to s"])
def test_back_to_a_savepoint_is_no_end(write_log, end) -> None:
    path = write_log(
        [
            (0, "a", "statement: start transaction"),
            (1, "a", "statement: UPDATE stock SET n = 0 WHERE item = 17"),
            (2, "a", f"statement: {end}"),
            (3, "b", "statement: SELECT n FROM stock WHERE item = 17"),
            (4, "a", "statement: ROLLBACK"),
            (5, "b", "statement: SELECT n FROM stock WHERE item = 17"),
        ]
    )

    assert awaited(path)["b"] == [set(), {"a"}]


@pytest.mark.parametrize(
    "texts",
    [
        ("BEGIN; UPDATE stock SET n = 0 WHERE item = 17; COMMIT",),
        ("/* app */ begin; UPDATE stock SET n = 0 WHERE item = 17; -- done; \n END",),
        ("BEGIN", "SELECT ';begin'; UPDATE stock SET n = 0 WHERE item = 17; COMMIT"),
        ("BEGIN", "COMMIT AND CHAIN", "UPDATE stock SET n = 0 WHERE item = 17", "COMMIT"),
        ("BEGIN", "ROLLBACK WORK AND CHAIN", "UPDATE stock SET n = 0 WHERE item = 17", "COMMIT AND NO CHAIN"),
        ("BEGIN", "UPDATE stock SET n = 0 WHERE item = 17", "COMMIT; BEGIN", "SELECT 1"),
        ("BEGIN", "UPDATE stock SET n = 0 WHERE item = 17", "END AND CHAIN", "SELECT 1"),
    ],
)
def test_a_transaction_ends_at_the_end_that_its_texts_have(write_log, texts) -> None:
    rows = [(at, "a", f"statement: {text}") for at, text in enumerate(texts)]
    path = write_log(
        [*rows, (8, "b", "statement: SELECT n FROM stock WHERE item = 17"), (9, "a", "statement: SELECT 1 FROM other")]
    )

    assert awaited(path)["b"] == [{"a"}]


@pytest.mark.parametrize(
    "texts",
    [
        ("BEGIN; COMMIT; BEGIN; UPDATE stock SET n = 0 WHERE item = 17",),
        ("BEGIN", "COMMIT AND CHAIN", "UPDATE stock SET n = 0 WHERE item = 17"),
        ("BEGIN", "UPDATE stock SET n = 0 WHERE item = 17", "DO $$ BEGIN; COMMIT; END $$; SELECT ';commit'"),
        ("BEGIN; UPDATE stock SET n = 0 WHERE item = 17; SAVEPOINT s; ROLLBACK TO s",),
    ],
)
def test_a_transaction_without_an_end_in_its_texts_goes_on(write_log, texts) -> None:
    rows = [(at, "a", f"statement: {text}") for at, text in enumerate(texts)]
    select = "statement: SELECT n FROM stock WHERE item = 17"

    path = write_log([*rows, (7, "b", select), (8, "a", "statement: COMMIT"), (9, "b", select)])

    assert awaited(path)["b"] == [set(), {"a"}]


def test_keys_of_new_rows_nobody_tells_so_whoever_reads_the_table_waits_for_who_inserted(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: INSERT INTO orders (customer) VALUES (5) RETURNING id"),
            (1, "b", "statement: INSERT INTO orders (customer) VALUES (6) RETURNING id"),
            (2, "c", "statement: UPDATE orders SET total = 1 WHERE id = 20001"),
            (3, "d", "statement: INSERT INTO orders (customer) VALUES (7)"),
        ]
    )

    assert awaited(path) == {"a": [set()], "b": [set()], "c": [{"a", "b"}], "d": [set()]}


def test_who_holds_locks_does_not_wait_for_a_statement_that_may_wait_for_them(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: BEGIN"),
            (1, "a", "statement: UPDATE stock SET n = 0 WHERE item = 17"),
            (2, "b", "statement: UPDATE stock SET n = 1 WHERE item = 17"),
            (3, "a", "statement: SELECT n FROM stock WHERE item = 17"),
            (3, "c", "statement: SELECT n FROM stock WHERE item = 17"),
            (4, "a", "statement: COMMIT"),
        ]
    )

    found = awaited(path)
    assert found["a"] == [set(), set(), set(), set()]
    assert found["c"] == [{"b"}]


def test_a_text_that_is_not_understood_waits_for_nobody(write_log) -> None:
    path = write_log([(0, "a", "statement: UPDATE stock SET n = 0"), (1, "b", "statement: LOCK ((( stock 17")])

    assert awaited(path) == {"a": [set()], "b": [set()]}


def test_values_of_a_type_are_values(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: UPDATE stock SET at = now() - interval '1 day' WHERE name = 'it''s'"),
            (1, "b", "statement: SELECT n FROM stock WHERE at > date '2026-01-01' AND name = 'it''s'"),
        ]
    )

    assert awaited(path) == {"a": [set()], "b": [{"a"}]}


def test_a_statement_comes_after_who_asked_for_its_row_and_has_not_ended(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: BEGIN"),
            (1, "a", "statement: UPDATE stock SET n = 1 WHERE item = 17"),
            (2, "b", "statement: UPDATE stock SET n = 2 WHERE item = 17"),
            (3, "c", "statement: UPDATE stock SET n = 3 WHERE item = 18"),
            (4, "a", "statement: UPDATE stock SET n = 4 WHERE item = 17"),
            (5, "d", "statement: SELECT n FROM stock WHERE item = 17"),
            (6, "a", "statement: COMMIT"),
            (7, "e", "statement: UPDATE stock SET n = 5 WHERE item = 17"),
        ]
    )

    steps = put_in_order(read_log(path).sessions, NONE)

    after = {name: [[one.statement.text for one in step.after] for step in found] for name, found in steps.items()}
    assert after["b"] == [["UPDATE stock SET n = 1 WHERE item = 17"]]
    assert after["a"] == [[], [], [], []]  # b is one statement, which may itself wait for a
    assert [after[name] for name in "cde"] == [[[]], [[]], [[]]]


def test_rows_that_are_inserted_together_are_one_and_too_many_are_about_every_row(write_log) -> None:
    rows = ", ".join(f"({number}, 'x')" for number in range(2000))
    path = write_log(
        [
            (0, "a", "statement: INSERT INTO stock VALUES (1, 'x'), (2, 'y')"),
            (1, "b", f"statement: INSERT INTO other VALUES {rows}"),
            (2, "c", f"statement: DELETE FROM other WHERE item IN ({', '.join(map(str, range(3000, 5000)))})"),
            (3, "d", "statement: SELECT n FROM other WHERE item = 7"),
        ]
    )

    assert awaited(path) == {"a": [set()], "b": [set()], "c": [{"b"}], "d": [{"b", "c"}]}


def test_a_row_with_a_reference_waits_for_who_wrote_what_it_refers_to(write_log) -> None:
    """And for who inserted rows there whose keys no statement tells, but not for who changed other rows."""
    path = write_log(
        [
            (0, "a", "statement: INSERT INTO customer (name) VALUES ('x') RETURNING id"),
            (1, "b", "statement: UPDATE customer SET name = 'y' WHERE id = 5"),
            (2, "c", "statement: UPDATE customer SET name = 'z' WHERE id = 6"),
            (3, "d", "statement: INSERT INTO orders (customer) VALUES (5)"),
            (4, "e", "statement: DELETE FROM customer WHERE id = 7"),
            (5, "f", "statement: SELECT * FROM orders WHERE id = 7"),
        ]
    )
    customer, orders = ("", "customer"), ("", "orders")

    found = awaited(path, Relations(parts={}, keys={(orders, "INSERT"): {customer}, (customer, "DELETE"): {orders}}))

    assert found == {"a": [set()], "b": [{"a"}], "c": [{"a"}], "d": [{"a", "b"}], "e": [{"a", "d"}], "f": [{"d"}]}


INSERT = "INSERT INTO stock VALUES (17, 1)"
UPDATE = "UPDATE stock SET n = 2 WHERE item = 17"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (INSERT.replace("stock", "public.stock"), UPDATE),
        (INSERT, UPDATE.replace("stock", "app.public.stock")),
        (INSERT.replace("stock", "s.stock"), UPDATE.replace("stock", "app.s.stock")),
        (f"{INSERT} RETURNING 1 AS create", UPDATE),
        ("MERGE INTO stock USING more ON true WHEN NOT MATCHED THEN INSERT VALUES (17, 1)", UPDATE),
        (INSERT, "COPY public.stock TO STDOUT"),
    ],
)
def test_a_table_is_the_same_however_it_is_named_and_written(write_log, first, second) -> None:
    path = write_log([(0, "a", f"statement: {first}"), (1, "b", f"statement: {second}")])

    assert awaited(path) == {"a": [set()], "b": [{"a"}]}


def test_tables_of_two_schemas_are_two_where_nobody_leaves_the_schema_out(write_log) -> None:
    rows = [
        (0, "a", f"statement: {INSERT.replace('stock', 'one.stock')}"),
        (1, "b", f"statement: {UPDATE.replace('stock', 'two.stock')}"),
    ]

    assert awaited(write_log(rows))["b"] == [set()]
    assert awaited(write_log([*rows, (2, "c", f"statement: {UPDATE}")])) == {
        "a": [set()],
        "b": [{"a"}],
        "c": [{"a", "b"}],
    }


@pytest.mark.parametrize("values", ["", "(17)"])
def test_what_is_executed_by_name_is_what_the_session_had_prepared(write_log, values) -> None:
    own = "17" if not values else "$1"
    prepare = f"PREPARE ins (int, numeric(9, 2)) AS INSERT INTO stock VALUES ({own}, 1)"
    path = write_log(
        [
            (0, "a", f"statement: {prepare}"),
            (1, "b", "statement: PREPARE ins AS SELECT 1"),
            (2, "b", f"statement: EXECUTE ins{values}"),
            (3, "a", f'statement: /* now */ EXECUTE "ins"{values}'),
            (4, "c", f"statement: {UPDATE}"),
            (5, "c", "statement: UPDATE stock SET n = 3 WHERE item = 18"),
        ]
    )

    assert awaited(path) == {"a": [set(), set()], "b": [set(), set()], "c": [{"a"}, {"a"}]}
