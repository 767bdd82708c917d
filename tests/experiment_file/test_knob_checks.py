import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arm_statements import find_waiting
from pgtrial.experiment_file.arms import all_declared
from pgtrial.experiment_file.experiment import Experiment

Find = Callable[..., dict[str, SpecProblem]]
ARMS = "[arms.a]\n[arms.b]\n"


@pytest.mark.parametrize(
    "text",
    [
        ARMS + "[arms.b.memory_pressure]\nsize = '1GB'\n",
        ARMS + "[arms.b.memory_pressure]\nshare = '50%'\n",
        ARMS + "[arms.b.filesystem]\noptions = 'noatime'\n",
        ARMS + "[arms.b.filesystem]\ntype = 'xfs'\nsize = '1GB'\noptions = 'noatime'\n",
        ARMS + "[target.filesystem]\nsize = '1GB'\n[arms.b.filesystem]\ntype = 'xfs'\n",
        "[target.filesystem]\nsize = '1GB'\n[factors.type]\nknob = 'filesystem'\nlevels = ['ext4', 'xfs']\n",
        ARMS + "[target.block_device]\ndevice = 'sda'\n[arms.b.block_device]\nscheduler = 'none'\n",
        ARMS + "[arms.a.extensions]\npreload = ['x']\n[arms.b.postgresql]\nshared_preload_libraries = 'x'\n",
        ARMS + "[arms.b.extensions]\ncreate = ['x']\n[target.postgresql]\nshared_preload_libraries = 'x'\n",
        ARMS + "[arms.a.huge_pages]\nsize = '2MB'\n[arms.b.postgresql]\nhuge_pages = 'off'\n",
        ARMS + "[arms.b.sysctl]\n'vm.dirty_ratio' = 0\n'vm.dirty_bytes' = 1000000\n",
        ARMS + "[arms.a.sysctl]\n'vm.dirty_ratio' = 5\n[arms.b.sysctl]\n'vm.dirty_bytes' = 1000000\n",
        ARMS + "[target.sysctl]\n'net.ipv4.neigh.eth0/1.gc_stale_time' = 0\n'kernel.sched_domain.cpu0.x' = '1 2'\n",
        ARMS + "[target.server]\npostgres = '/opt/pgsql-18.1'\n",
        ARMS + "[arms.b.sql]\napply = 'CREATE INDEX ON a (b)'\n",
        ARMS + "[arms.b.sql]\napply = 'SET lock_timeout = 5; ALTER TABLE a ADD b int; RESET lock_timeout;'\n",
        ARMS + "[arms.b.sysctl]\n'kernel.numa_balancing' = false\n'net.ipv4.neigh.br-1:2.gc_stale_time' = 1\n",
        ARMS + "[arms.b.sysctl]\n'net/ipv4/neigh/eth0.100/gc_stale_time' = 0\n",
        ARMS + "[arms.b.filesystem]\noptions = 'noatime,commit=30,compress=zstd:3'\n",
        ARMS + "[target.cgroup]\nread_iops = 500000\n",
    ],
)
def test_what_goes_together_is_not_refused(find: Find, text: str) -> None:
    assert find(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (
            "[arms.b.memory_pressure]\nsize = '1GB'\nshare = '5%'\n",
            "arms.b.memory_pressure.size",
            "size and as a share",
        ),
        (
            "[target.memory_pressure]\nsize = '1GB'\n[arms.b.memory_pressure]\nshare = '5%'\n",
            "arms.b.memory_pressure.share",
            "as a size and as a share",
        ),
        ("[arms.b.sql]\napply = ''\n", "arms.b.sql.apply", "it has no statement"),
        ('[arms.b.sql]\napply = "/* later */;\\n-- none\\n"\n', "arms.b.sql.apply", "it has no statement"),
        (
            '[arms.b.sql]\napply = "-- for the report\\nSET work_mem = 1; reset jit;"\n',
            "arms.b.sql.apply",
            "only sets something in its own session",
        ),
        *(
            (
                f"[arms.b.sql]\napply = '''\nCREATE INDEX ON t (a);\n{mark}\nDROP INDEX t_a_idx;\n'''\n",
                "arms.b.sql.apply",
                "it is for a migration tool: what stands from line 2 on undoes the rest, and would be executed too",
            )
            for mark in (
                "-- +goose Down",
                "-- +migrate Down notransaction",
                "--migrate:down transaction:false",
                "-- rambler down",
                "---- create above / drop below ----",
            )
        ),
        ("[arms.b.filesystem]\ntype = 'xfs'\n", "arms.b.filesystem.type", "of type xfs has no size"),
        ("[arms.b.filesystem]\nsize = '1GB'\n", "arms.b.filesystem.size", "has a size but no type"),
        ("[target.filesystem]\nsize = '1GB'\n", "target.filesystem.size", "has a size but no type"),
        (
            "[arms.b.block_device]\ndevice = 'sda'\n",
            "arms.b.block_device.device",
            'nothing is set for block device "sda"',
        ),
        (
            "[arms.b.extensions]\npreload = ['x']\n[target.postgresql]\nShared_Preload_Libraries = 'y'\n",
            "arms.b.extensions.preload",
            'setting "shared_preload_libraries" and knob "extensions" exclude each other',
        ),
        (
            "[target.huge_pages]\nsize = '2MB'\n[arms.b.postgresql]\nhuge_pages = 'off'\n",
            "arms.b.postgresql.huge_pages",
            'setting "huge_pages" and knob "huge_pages" exclude each other',
        ),
        (
            "[arms.b.huge_pages]\nsize = '2MB'\n[arms.c]\ninherit = 'b'\n[arms.c.postgresql]\nhuge_page_size = '2MB'\n",
            "arms.b.huge_pages.size",
            'setting "huge_page_size"',
        ),
        (
            "[arms.b.sysctl]\n'vm.dirty_ratio' = 5\n'vm.dirty_bytes' = 1000000\n",
            'arms.b.sysctl."vm.dirty_ratio"',
            '"vm.dirty_ratio" and "vm.dirty_bytes" exclude each other',
        ),
        ("[arms.b.sysctl]\nswappiness = 5\n", "arms.b.sysctl.swappiness", "is not the name of a kernel setting"),
        (
            "[arms.b.sysctl]\n'kernel.core_pattern' = '|/tmp/x'\n",
            'arms.b.sysctl."kernel.core_pattern"',
            "cannot be varied",
        ),
        ("[arms.b.sysctl]\n'kernel/core_pattern' = '|x'\n", 'arms.b.sysctl."kernel/core_pattern"', "is not the name"),
        ("[arms.b.sysctl]\n'vm.' = 5\n", 'arms.b.sysctl."vm."', "is not the name of a kernel setting"),
        ("[arms.b.sysctl]\n'vm/../x' = 5\n", 'arms.b.sysctl."vm/../x"', "is not the name of a kernel setting"),
        ("[arms.b.sysctl]\n'net/a.b/' = 5\n", 'arms.b.sysctl."net/a.b/"', "is not the name of a kernel setting"),
        ("[arms.b.sysctl]\n'vm./../x' = 5\n", 'arms.b.sysctl."vm./../x"', "is not the name of a kernel setting"),
        ("[arms.b.sysctl]\n'vm.x y' = 5\n", 'arms.b.sysctl."vm.x y"', "is not the name of a kernel setting"),
        ("[arms.b.filesystem]\noptions = 'noatime nodev'\n", "arms.b.filesystem.options", "is not a mount option"),
        ("[arms.b.filesystem]\noptions = 'noatime,'\n", "arms.b.filesystem.options", '"" is not a mount option'),
        ("[arms.b.filesystem]\noptions = 'logdev=/dev/sda'\n", "arms.b.filesystem.options", "is not a mount option"),
        (
            "[arms.b.filesystem]\noptions = 'commit=5,commit=6'\n",
            "arms.b.filesystem.options",
            'option "commit" appears twice',
        ),
        ("[arms.b.sysctl]\n'vm.x' = [1]\n", 'arms.b.sysctl."vm.x"', "got a list"),
        ("[arms.b.sysctl]\n'vm.x' = ''\n", 'arms.b.sysctl."vm.x"', "it is empty"),
        ('[arms.b.sysctl]\n"vm.x" = "a\\tb"\n', 'arms.b.sysctl."vm.x"', "a value must fit on one line"),
        ("[arms.b.sysctl]\nvm.x = 1\n", "arms.b.sysctl.vm", "got a table"),
        ("[arms.b.server]\npostgres = '16.2'\n", "arms.b.server.postgres", '"16.2" is not a major version'),
        (
            "[target]\ndirectory = '/tmp'\n[target.storage]\ndata = '/tmp'\n",
            "target.storage.data",
            "the directory of the data is given twice",
        ),
    ],
)
def test_what_contradicts_each_other_is_refused_once(find: Find, text: str, path: str, message: str) -> None:
    problems = find("[arms.a]\n" + text + ("" if "[arms.b" in text else "[arms.b]\n"))

    assert list(problems) == [path]
    assert message in problems[path].message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vm/swappiness", 'Write it as sysctl does: "vm.swappiness".'),
        ("/proc/sys/vm/swappiness", 'Write it as sysctl does: "vm.swappiness".'),
        ("swappiness", 'Write it as "sysctl -a" shows it: "vm.swappiness".'),
        ("/proc/sys/net/ipv4/conf/eth0.1/x", 'Write it as sysctl does: "net.ipv4.conf.eth0/1.x".'),
    ],
)
def test_a_path_is_turned_into_the_name_that_was_meant(find: Find, name: str, hint: str) -> None:
    in_arm = find(ARMS + f"[arms.b.sysctl]\n'{name}' = 1\n")
    in_factor = find(f"[factors.'{name}']\nknob = 'sysctl'\nlevels = [1, 2]\n")

    assert [problem.hint for problem in in_arm.values()] == [hint]
    assert [problem.hint for problem in in_factor.values()] == [hint]


def test_a_factor_makes_combinations_that_must_not_contradict_a_common_value(find: Find) -> None:
    text = "[target.huge_pages]\nsize = '2MB'\n[factors.huge_pages]\nlevels = ['on', 'off']\n"

    assert set(find(text)) == {"factors.huge_pages.levels[0]", "factors.huge_pages.levels[1]"}


def test_the_places_of_the_data_have_to_be_there(find: Find, tmp_path: Path) -> None:
    text = (
        f"[arms.a.storage]\ndata = '{tmp_path}'\nwal = '{tmp_path}'\n"
        f"[arms.b.storage]\ndata = '{tmp_path}/no'\nwal = '{tmp_path}/nowhere'\n"
    )

    assert {path: problem.message for path, problem in find(text, tmp_path).items()} == {
        "arms.b.storage.data": f'directory "{tmp_path}/no" does not exist',
        "arms.b.storage.wal": f'directory "{tmp_path}/nowhere" does not exist',
    }
    assert find(text) == {}
    assert find(text + "[target]\nhost = 'ssh://db'\n", tmp_path) == {}


INDEX = "[arms.b.sql]\napply = 'CREATE INDEX x ON a (b)'\n"


@pytest.mark.parametrize("restore", ["each-block", "never"])
def test_sql_needs_its_undo_where_it_would_reach_the_next_run(find: Find, restore: str) -> None:
    design = f"[design]\nrestore = '{restore}'\n"
    factor = "[factors.apply]\nknob = 'sql'\nlevels = ['', 'ANALYZE']\n"

    problems = find(ARMS + INDEX + design)
    assert list(problems) == ["arms.b.sql.apply"]
    assert "the data are not put back before each run" in problems["arms.b.sql.apply"].message
    assert 'restore = "each-run"' in problems["arms.b.sql.apply"].hint
    assert find(ARMS + INDEX + "undo = 'DROP INDEX x'\n" + design) == {}
    assert list(find(factor + design)) == ["factors.apply.levels[1]"]
    assert find(factor) == {}


def test_sql_that_all_arms_have_needs_no_undo_but_in_an_existing_database(find: Find) -> None:
    common = ARMS + INDEX.replace("arms.b", "target") + "[design]\nrestore = 'never'\n"
    existing = "[target]\nkind = 'server'\ndatabase = 'shop'\nwrites = true\n[dataset]\nkind = 'existing'\n"

    assert find(common) == {}
    problem = find(common + existing)["target.sql.apply"]
    assert "the database is there before and after" in problem.message
    assert problem.hint == "Add undo beside apply."


EXISTING = "[target]\nkind = 'server'\ndatabase = 'shop'\nwrites = true\n[dataset]\nkind = 'existing'\n"


def sql_table(apply: str, undo: str) -> str:
    return f"{ARMS}[arms.b.sql]\napply = {json.dumps(apply)}\nundo = {json.dumps(undo)}\n"


@pytest.mark.parametrize(
    ("apply", "undo", "message"),
    [
        ("ANALYZE;\n\nCREATE INDEX IF NOT EXISTS a ON t (b)", "DROP INDEX a", "IF NOT EXISTS in line 3: "),
        ("CREATE TABLE if not /* x */ exists t ()", "DROP TABLE t", "IF NOT EXISTS in line 1: "),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS b int", "ALTER TABLE t DROP b", "IF NOT EXISTS in line 1: "),
        ("CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON t (b)", "DROP INDEX a", "IF NOT EXISTS in line 1: "),
        (
            "DO $$ BEGIN IF NOT EXISTS (SELECT) THEN CREATE TABLE t (); END IF; END $$",
            "DROP TABLE t",
            "IF NOT EXISTS in line 1: ",
        ),
        (
            "DO 'BEGIN EXECUTE ''CREATE TABLE IF NOT EXISTS t ()''; END'",
            "DROP TABLE t",
            "IF NOT EXISTS in line 1: ",
        ),
        ("EXPLAIN ANALYZE CREATE TABLE IF NOT EXISTS t AS SELECT", "DROP TABLE t", "IF NOT EXISTS in line 1: "),
        (
            "CREATE FUNCTION f(int, int) RETURNS int RETURN $1+$2; CREATE TABLE IF NOT EXISTS t ()",
            "DROP TABLE t",
            "IF NOT EXISTS in line 1: ",
        ),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "DROP VIEW IF EXISTS v", "CREATE OR REPLACE VIEW in line 1: "),
        (
            "DO $$ BEGIN CREATE TABLE t (i int); EXCEPTION WHEN duplicate_table THEN NULL; END $$",
            "DROP TABLE t",
            "EXCEPTION in line 1: ",
        ),
        (
            "DO $$ BEGIN EXECUTE 'CREATE TYPE t'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'there'; END $$",
            "DROP TYPE t",
            "EXCEPTION in line 1: ",
        ),
        (
            "DO $$ BEGIN CREATE OR REPLACE VIEW v AS SELECT 1; END $$",
            "DROP VIEW v",
            "CREATE OR REPLACE VIEW in line 1: ",
        ),
        (
            "CREATE OR REPLACE VIEW v AS SELECT 1",
            "DO $$ BEGIN DROP VIEW v; END $$",
            "CREATE OR REPLACE VIEW in line 1: ",
        ),
        (
            "CREATE OR REPLACE PROCEDURE p() LANGUAGE sql AS ''",
            "ANALYZE; DROP ROUTINE p",
            "CREATE OR REPLACE PROCEDURE in line 1: ",
        ),
        (
            "CREATE OR REPLACE CONSTRAINT TRIGGER r AFTER INSERT ON t EXECUTE FUNCTION f()",
            "DROP TRIGGER r ON t",
            "CREATE OR REPLACE TRIGGER in line 1: ",
        ),
    ],
)
def test_sql_that_takes_what_is_there_for_its_own_is_refused_in_an_existing_database(
    find: Find, apply: str, undo: str, message: str
) -> None:
    problem = find(sql_table(apply, undo) + EXISTING)["arms.b.sql.apply"]

    assert problem.message.startswith(message)
    assert "before anything is changed" in problem.hint or "with the old definition" in problem.hint
    assert find(sql_table(apply, undo)) == {}  # of a cluster of the experiment's own nothing is lost


@pytest.mark.parametrize(
    ("apply", "undo"),
    [
        ("CREATE INDEX a ON t (b) -- not IF NOT EXISTS", "DROP INDEX IF EXISTS a"),
        ("COMMENT ON TABLE t IS 'CREATE TABLE IF NOT EXISTS'", "COMMENT ON TABLE t IS NULL"),
        ('CREATE TABLE "IF" ("NOT" int, "EXISTS" int)', 'DROP TABLE "IF"'),
        ("INSERT INTO t SELECT WHERE NOT EXISTS (SELECT FROM t)", "DELETE FROM t"),
        (
            "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS 'BEGIN IF NOT EXISTS (SELECT) THEN CREATE TABLE t'",
            "DROP FUNCTION f()",
        ),
        (
            "DO $$ BEGIN IF NOT EXISTS (SELECT) THEN RAISE 'nothing'; END IF; END $$; CREATE TABLE t ()",
            "DROP TABLE t",
        ),
        ("CREATE TEMP TABLE IF NOT EXISTS t ()", "DROP TABLE t"),
        ("DO $$ BEGIN CREATE TABLE t (); EXCEPTION WHEN division_by_zero THEN NULL; END $$", "DROP TABLE t"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW v AS SELECT 2"),
        (
            "CREATE OR REPLACE VIEW v AS SELECT 1; CREATE TABLE x ()",
            "CREATE OR REPLACE VIEW v AS SELECT 2; DROP TABLE x",
        ),
    ],
)
def test_sql_that_fails_on_what_is_there_is_not_refused(find: Find, apply: str, undo: str) -> None:
    assert find(sql_table(apply, undo) + EXISTING) == {}


@pytest.mark.parametrize(
    ("statement", "who"),
    [
        ("/* x */ create unique index a ON t (b)", "writers"),
        ("CREATE INDEX CONCURRENTLY a ON t (b)", ""),
        ("CREATE OR REPLACE TRIGGER r AFTER INSERT ON t EXECUTE FUNCTION f()", "writers"),
        ("CREATE TABLE trigger (a int)", ""),
        ("DROP INDEX a", "readers and writers"),
        ("DROP INDEX CONCURRENTLY a", ""),
        ("DROP FUNCTION f()", ""),
        ("ALTER TABLE t ADD b int", "readers and writers"),
        ("ALTER TABLE t DETACH PARTITION p CONCURRENTLY", ""),
        ("VACUUM (FULL) t", "readers and writers"),
        ("VACUUM ANALYZE t", ""),
        ("REINDEX TABLE t", "readers and writers"),
        ("REINDEX (CONCURRENTLY) TABLE t", ""),
        ("REFRESH MATERIALIZED VIEW v", "readers and writers"),
        ("TRUNCATE t", "readers and writers"),
        ("LOCK TABLE t", "readers and writers"),
        ("ALTER TABLE t VALIDATE CONSTRAINT c", ""),
        ("ALTER TABLE t SET (fillfactor = 90)", ""),
        ("ALTER TABLE t ALTER b SET STATISTICS 1000", ""),
        ("INSERT INTO t VALUES ('DROP TABLE t')", ""),
        ("-- nothing", ""),
    ],
)
def test_who_waits_for_a_statement_is_known_from_its_words(statement: str, who: str) -> None:
    assert find_waiting(statement) == who


def test_the_two_ways_to_write_a_kernel_setting_are_one_setting_from_the_reading_on(find: Find) -> None:
    """However the file writes it, plan, record and report have the one name."""
    written, standard = "net/ipv4/conf/eth0.100/rp_filter", "net.ipv4.conf.eth0/100.rp_filter"
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}}
    in_arm = Experiment.model_validate(tables | {"arms": {"a": {}, "b": {"sysctl": {written: 1}}}})
    in_factor = Experiment.model_validate(tables | {"factors": {written: {"knob": "sysctl", "levels": [0, 1]}}})

    assert in_arm.arms["b"].texts() == {"sysctl": {standard: "1"}}
    assert {given.key for given in all_declared(in_factor)} == {standard}

    (problem,) = find(ARMS + f"[arms.b.sysctl]\n'{written}' = 1\n'{standard}' = 0\n").values()
    assert f'kernel setting "{standard}" is given twice' in problem.message
