from collections.abc import Callable

import pytest

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.cause_tables import Amount
from pgtrial.experiment_file.check_rules import CheckKind, change_rule, check_rules
from pgtrial.experiment_file.load import parse_experiment

ARMS = "[arms.a.postgresql]\nwork_mem = '1MB'\n[arms.b.postgresql]\nwork_mem = '2MB'\n"
Find = Callable[..., dict[str, SpecProblem]]


@pytest.mark.parametrize(
    "text",
    [
        "[[criteria]]\nmetric = 'pgbench.tps'\nweight = 2\n[[criteria]]\nmetric = 'memory.swap_growth'",
        "[[criteria]]\nmetric = 'stability.lowest'\nbetter = 'higher'\nweight = 0.5",
        "[checks]\ncpu-busy = { threshold = '90%' }\nread-response = { threshold = '2ms', alarm = '75%' }",
        "[checks.temporary-files]\nwarning = '1MB'\nalarm = 2e7",
        "[checks.hit-ratio]\ninfo = '99.9%'\nwarning = 0.95",
        "[checks.idle-trend]\nwarning = -0.2\nalarm = -0.3\ninfo = -0.1",
        "[associations]\npairs = [['wait.IO', 'vmstat.wa'], ['pgbench.tps', 'iostat.util/vda']]",
        "[associations]\npairs = [['server.cpu/client backend', 'wait.LWLock/WALWrite']]\nfalse_discovery = 0.1",
    ],
)
def test_what_the_file_may_say_of_causes(find: Find, text: str) -> None:
    assert find(f"{ARMS}{text}\n") == {}


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        ("[[criteria]]\nmetric = 'tps'", "criteria[0].metric", 'unrecognized metric "tps"', '"pgbench.tps"'),
        ("[[criteria]]\nmetric = 'nonsense'", "criteria[0].metric", 'unrecognized metric "nonsense"', "Criteria are:"),
        (
            "[[criteria]]\nmetric = 'pgbench.tps'\n[[criteria]]\nmetric = 'pgbench.tps'",
            "criteria[1].metric",
            "appears twice",
            "weight",
        ),
        ("[criteria]\nmetric = 'pgbench.tps'", "criteria", "expected a list, got a table", "[[criteria]]"),
        ("[[criteria]]\nmetric = 'pgbench.tps'\nbetter = 'up'", "criteria[0].better", "invalid value", "higher, lower"),
        ("[[criteria]]\nmetric = 'pgbench.tps'\nweight = 0", "criteria[0].weight", "greater than 0", ""),
        ("[checks.cpu-bussy]\nalarm = 1", "checks.cpu-bussy", "does not exist", '"cpu-busy"'),
        ("[checks.whatever]\nalarm = 1", "checks.whatever", "does not exist", "Checks are: cpu-busy"),
        ("[checks.cpu-busy]\nthreshold = '5ms'", "checks.cpu-busy.threshold", "wrong unit", '"90%"'),
        ("[checks.read-response]\nthreshold = '3%'", "checks.read-response.threshold", "wrong unit", '"5ms"'),
        ("[checks.read-response]\nalarm = '3ms'", "checks.read-response.alarm", "wrong unit", '"90%"'),
        (
            "[checks.temporary-files]\nwarning = nan",
            "checks.temporary-files.warning",
            "expected a finite number, got nan",
            "",
        ),
        (
            "[associations]\nfalse_discovery = nan",
            "associations.false_discovery",
            "expected a finite number, got nan",
            "",
        ),
        ("[checks.temporary-files]\nwarning = '3s'", "checks.temporary-files.warning", "wrong unit", '"64MB"'),
        ("[checks.device-queue]\nthreshold = '3s'", "checks.device-queue.threshold", "wrong unit", "without a unit"),
        ("[checks.hit-ratio]\nthreshold = 0.5", "checks.hit-ratio.threshold", "no threshold of its own", "warning"),
        (
            "[checks.cpu-busy]\nwarning = '60%'",
            "checks.cpu-busy",
            "alarm (0.5) before warning (0.6)",
            "worse of the two",
        ),
        ("[checks.hit-ratio]\nwarning = '80%'", "checks.hit-ratio", "alarm (0.85) before warning (0.8)", "worse"),
        ("[checks.cpu-busy]\nlimit = 1", "checks.cpu-busy.limit", "unrecognized key", "threshold, info"),
        ("[checks.cpu-busy]\nalarm = 'much'", "checks.cpu-busy.alarm", '"much" is no limit', "5ms"),
        ("[checks.cpu-busy]\nalarm = true", "checks.cpu-busy.alarm", "expected a number", ""),
        ("[associations]\npairs = [['a', 'vmstat.wa']]", "associations.pairs[0][0]", "not a metric", "vmstat.wa"),
        ("[associations]\npairs = [['vmstat.wa']]", "associations.pairs[0]", "two different metrics", "waits.IO"),
        (
            "[associations]\npairs = [['vmstat.us', 'vmstat.wa'], ['vmstat.wa', 'vmstat.us']]",
            "associations.pairs[1]",
            "appears twice",
            "",
        ),
        ("[associations]\nfalse_discovery = 0", "associations.false_discovery", "greater than 0", ""),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    find: Find, text: str, path: str, message: str, hint: str
) -> None:
    problems = find(f"{ARMS}{text}\n")

    assert list(problems) == [path]
    assert message in problems[path].message
    assert hint in problems[path].hint


def test_limits_are_read_in_base_units(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = (
        f'format = 1\n[experiment]\nname = "x"\n[workload]\nmix = "select-only"\n{ARMS}'
        "[checks]\ncpu-busy = { threshold = '90%', alarm = 0.75 }\nread-response = { threshold = '2ms' }\n"
        "temporary-files = { warning = '1MB' }\n"
    )
    checks = parse_experiment(text, "x.toml", tmp_path_factory.mktemp("empty")).experiment.checks

    assert checks["cpu-busy"].limits() == {"threshold": Amount(0.9, "share"), "alarm": Amount(0.75, "")}
    assert checks["read-response"].limits() == {"threshold": Amount(0.002, "s")}
    assert checks["temporary-files"].limits() == {"warning": Amount(2.0**20, "B")}


def test_a_changed_check_keeps_what_was_not_changed() -> None:
    rule = check_rules()["cpu-busy"]
    changed = change_rule(rule, {"threshold": 0.9, "info": 0.1})

    assert (changed.threshold, changed.info, changed.warning, changed.alarm) == (0.9, 0.1, 0.25, 0.5)
    assert (changed.name, changed.metric, changed.kind) == (rule.name, rule.metric, rule.kind)
    assert change_rule(rule, {}) == rule
    lower = change_rule(check_rules()["hit-ratio"], {"info": 0.999})
    assert (lower.threshold, lower.is_higher_worse, lower.warning) == (0.999, False, 0.90)


def test_all_checks_are_whole() -> None:
    for rule in check_rules().values():
        limits = [limit for _, limit in rule.limits()]
        assert limits, rule.id
        is_higher_worse = rule.is_higher_worse or rule.kind is CheckKind.TIME
        assert limits == sorted(limits, reverse=not is_higher_worse), rule.id
        assert rule.name
        assert rule.metric


def test_the_thresholds_are_those_that_users_of_pg_expecto_know() -> None:
    rules = check_rules()
    known = {
        "cpu-busy": 0.8,
        "run-queue": 1,
        "kernel-time": 0.3,
        "swap-in": 0,
        "swap-out": 0,
        "io-wait": 0.1,
        "blocked": 1,
        "available-memory": 0.05,
        "device-busy": 0.5,
        "read-response": 0.005,
        "write-response": 0.005,
        "device-queue": 1,
    }

    assert {name: rules[name].threshold for name in known} == known
    assert all((rules[name].warning, rules[name].alarm) == (0.25, 0.5) for name in known)
