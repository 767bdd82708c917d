"""Without values nothing of a text that could be somebody's leaves the server, wherever and however it is written."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgtrial.postgres.production import Load, Statement
from pgtrial.postgres.production_effects import Effects
from pgtrial.workloads.production.draws import DRAWS
from pgtrial.workloads.production.record import experiment_text, record_of
from pgtrial.workloads.production.scripts import derive_scripts, write_files
from pgtrial.workloads.production.texts import Refusal, Text, examine

LOAD = Load(statements=(), tables={}, path=("public",), effects=Effects(), hidden=0)

# Where a constant may stand, each beside a parameter: a server keeps such texts where it counted a statement that was
# prepared before its counts were reset.
POSITIONS = (
    "SELECT a FROM t WHERE age = {} AND id = $1",
    "SELECT a FROM t WHERE id = $1 AND age <> -{}",
    "SELECT a FROM t WHERE id = $1 AND age+{}>3",
    "SELECT a FROM t WHERE id = $1 AND a IN (b, {})",
    "SELECT a FROM t WHERE id = $1 AND a BETWEEN b AND {}",
    "SELECT {}, a FROM t WHERE id = $1",
    "SELECT a, {}FROM t WHERE id = $1",
    "SELECT f($1, {})",
    "SELECT bpchar({}), varying ({}), numeric($1)",
    "SELECT a[{}] FROM t WHERE id = $1",
    "SELECT a FROM t WHERE id = $1 ORDER BY b + {}",
    "SELECT a FROM t WHERE id = $1 ORDER BY {} + b",
    "SELECT a FROM t WHERE id = $1 ORDER BY (CASE WHEN a THEN 1 ELSE {} END)",
    "SELECT a FROM t WHERE id = $1 ORDER BY 1 LIMIT b, {}",
    "SELECT a FROM t WHERE id = $1 GROUP BY f(a, {})",
    "SELECT a FROM t WHERE id = $1 GROUP BY a HAVING {} < max(b)",
    "SELECT a FROM t WHERE id = $1 LIMIT {} + 1",
    "SELECT a FROM t WHERE id = $1 LIMIT 1 OFFSET {}",
    "SELECT array_agg(a ORDER BY {}) FROM t WHERE id = $1",
    "SELECT array_agg(values ORDER BY {}) FROM t WHERE id = $1",
    "SELECT sum(a) OVER (ORDER BY {}) FROM t WHERE id = $1",
    "SELECT sum(a) OVER w FROM t WHERE id = $1 WINDOW w AS (ORDER BY b, {})",
    "SELECT percentile_cont(a) WITHIN GROUP (ORDER BY {}) FROM t WHERE id = $1",
    "SELECT a FROM t WHERE id = $1 ORDER BY 1 UNION SELECT b, {}",
    "SELECT a FROM t TABLESAMPLE SYSTEM ({}) WHERE id = $1",
    "SELECT a FROM t WHERE id = $1::text AND a IN ({})",
    "SELECT a::text, ({}) FROM t WHERE id = $1",
    "SELECT $1 AS a, ({})",
    "SELECT $1 {}",
    "WITH x AS (SELECT {} AS a) SELECT a FROM x WHERE id = $1",
    "INSERT INTO t (a, b) VALUES ($1, {})",
    "INSERT INTO t (a) SELECT a FROM t WHERE id = $1 ORDER BY 1 ON CONFLICT (a) DO UPDATE SET a = b, c = {}",
    "UPDATE t SET a = {} WHERE id = $1",
    "DELETE FROM t WHERE id = $1 AND a = {} RETURNING a",
    "MERGE INTO t USING s ON t.id = $1 WHEN MATCHED THEN UPDATE SET a = {}",
    "VALUES ($1, {})",
    "SELECT a FROM t WHERE id = $1 ORDER BY ARRAY[a, {}, b]",
    "SELECT b, count(*) FROM t WHERE id = $1 GROUP BY ARRAY[b, {}, c]",
    "SELECT a FROM t WHERE id = $1 ORDER BY b[c : d], a[{}]",
    "SELECT DISTINCT ON (f({}), {} + a) a FROM t WHERE id = $1",
    "SELECT x.current_timestamp({}), current_timestamp + {} FROM x WHERE id = $1",
    "SELECT x.order by, {}, b FROM x WHERE id = $1",
    "SELECT x.group by, {}, b FROM x WHERE id = $1",
)
DIGITS = st.integers(1, 10**12).map(str)
SPELLINGS = (
    "{}", "{}.", ".{}", "{}.5", "{}e7", "{}E-3", "0x{}", "0X{}", "0o{}", "0b{}", "1_{}", "{}_000", "{}abc", "{}$1",
    "'{}'", "E'{}'", "U&'{}'", "N'{}'", "b'{}'", "x'{}'", "$${}$$", "$a${}$a$", "DATE '{}'", "INTERVAL '{}' DAY",
    "timestamptz '{}'", "'{}'::int", "+{}", "- {}", "ARRAY[{}]", "ROW({})", "/* */{}", "{}::numeric(4, 2)",
)  # fmt: skip


def counted(text: str) -> Statement:
    return Statement(text=text, calls=1, rows=1, hit=1, read=0, time=1.0, types=("integer",))


def asked(text: str) -> Text | Refusal:
    return examine(counted(text), LOAD, with_values=False)


@given(position=st.sampled_from(POSITIONS), spelling=st.sampled_from(SPELLINGS), digits=DIGITS)
@example(position=POSITIONS[0], spelling="{}", digits="37")
@example(position="SELECT array_agg(values ORDER BY {}) FROM t WHERE id = $1", spelling="{}", digits="37")
@example(position="SELECT a FROM t WHERE id = $1 ORDER BY ARRAY[a, {}, b]", spelling="{}", digits="37")
@example(position="SELECT b, count(*) FROM t WHERE id = $1 GROUP BY ARRAY[b, {}, c]", spelling="{}", digits="42")
@example(position="SELECT x.order by, {}, b FROM x WHERE id = $1", spelling="{}", digits="37")
@example(position="SELECT a FROM t WHERE ssn = {} AND id = $1", spelling="12_345_{}", digits="678")
@example(position="SELECT a FROM t WHERE card = {} AND id = $1", spelling="0xDEAD{}", digits="1")
@example(position="SELECT a FROM t WHERE salary = {} AND id = $1", spelling="{}e7", digits="9")
def test_no_constant_of_a_text_leaves_the_server(position, spelling, digits):
    constant = spelling.replace("{}", digits)
    found = asked(position.replace("{}", constant))

    assert isinstance(found, Refusal), found.fill(lambda number: f"${number}")
    assert "values stay on the server" in found.reason or "it is not clear where" in found.reason
    assert constant not in found.command + found.reason


@given(position=st.sampled_from(POSITIONS), spelling=st.sampled_from(SPELLINGS), digits=st.tuples(DIGITS, DIGITS))
def test_what_is_written_is_the_same_whatever_the_constant(position, spelling, digits):
    one, other = (written(position.replace("{}", spelling.replace("{}", each))) for each in digits)

    assert one == other


def written(text: str) -> tuple[str, ...]:
    """All that is written of a load with this statement, and what is said."""
    load = replace(LOAD, statements=tuple(map(counted, (text, "SELECT a FROM t WHERE id = $1"))))
    derived = derive_scripts(load, with_values=False)
    drawn = {draw.name: write_files(derived, load, draw) for draw in DRAWS}
    return (
        record_of(derived, drawn, with_values=False),
        *(text for draw in DRAWS for text in (experiment_text(derived, draw), drawn[draw.name].setup)),
        *(text for files in drawn.values() for text in files.scripts.values()),
        *derived.left_out_texts(),
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, count(*) FROM t WHERE id = $1 GROUP BY 1 ORDER BY 2 DESC, 1 NULLS LAST LIMIT $2",
        "SELECT a FROM (SELECT a, b FROM t GROUP BY 1, 2) AS x WHERE id = $1 ORDER BY lower(a), 1",
        "SELECT a FROM t WHERE id = $1 ORDER BY 1 LIMIT 20",
        "SELECT a FROM t WHERE id = $1 ORDER BY ARRAY[a, b], 2, x.order LIMIT 20",
        "SELECT a FROM t WHERE id = $1 FETCH FIRST 5 ROWS ONLY",
        "SELECT $1::varchar(255), $2::numeric(12, 2), $3::public.point(3), a::bit varying(8)",
        "SELECT CAST($1 AS numeric(10,2)), CAST(a AS character varying(20)), $2::vector(1536)",
        "SELECT DISTINCT ON (1, 2) a, b FROM t WHERE id = $1 AND c < CURRENT_TIMESTAMP(3) AND d > localtime(0)",
        "SELECT id2, t1.a, $2 FROM t1 WHERE a1$2 = $1",
    ],
)
def test_positions_and_sizes_of_types_are_no_constants(text):
    found = asked(text)

    assert isinstance(found, Text), found.reason
    assert found.fill(lambda number: f"${number}") == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE id = $1abc",
        "SELECT a FROM t WHERE id = $1_000",
        f"SELECT a FROM t WHERE id = ${'9' * 5000}",
        "SELECT a FROM t WHERE id = $1 AND a = 'Alice",
        'SELECT a FROM t WHERE id = $1 AND a = "Alice',
        "SELECT U&\"Alice!0061\" UESCAPE '!' FROM t WHERE id = $1",
        'SELECT u&"wipe"() FROM t WHERE id = $1',
        "SELECT a FROM t WHERE id = $٣",
    ],
)
@pytest.mark.parametrize("with_values", [False, True])
def test_a_text_that_versions_of_the_server_read_in_other_ways_is_left_out(text, with_values):
    found = examine(counted(text), LOAD, with_values=with_values)

    assert isinstance(found, Refusal)
    assert "Alice" not in found.command + found.reason


def test_a_comment_ends_where_it_does_for_the_server():
    found = asked("SELECT a FROM t -- Alice\r WHERE id = $1")

    assert isinstance(found, Text)
    assert found.fill(lambda number: f"${number}") == "SELECT a FROM t WHERE id = $1"
