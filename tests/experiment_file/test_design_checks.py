from collections.abc import Callable

import pytest

from pgtrial.errors import SpecProblem

ARMS = "[arms.a.postgresql]\nwork_mem = '1MB'\n[arms.b.postgresql]\nwork_mem = '2MB'\n"
Find = Callable[..., dict[str, SpecProblem]]


@pytest.mark.parametrize(
    "design",
    [
        "method = 'interleaved'\nslice = '2s'",
        "method = 'auto'\nslice = '15s'",
        "method = 'duet'\nplacebo = true",
        "method = 'auto'\ncovariate = 'steal'",
        "covariate = 'pressure'",
        "stop = 'decision'\nblocks = 6",
        "stop = 'decision'",
        "stop = 'each-arm'\nblocks = 6",
        "stop = 'each-arm'\nmethod = 'auto'",
        "stop = 'precision'\nprecision = '1%'\nbudget = '1h'\nlooks = 5",
        "stop = 'decision'\nbudget = '1h'\nlooks = 100",
        "soak = '24h'",
        "soak = '4min'\nwindows = 8\nmethod = 'auto'",
    ],
)
def test_what_goes_together_is_not_refused(find: Find, design: str) -> None:
    assert find(f"{ARMS}[design]\n{design}\n") == {}


@pytest.mark.parametrize(
    ("design", "path", "message"),
    [
        ("blocks = 3\nbudget = '1h'", "design.budget", "exclude each other"),
        ("slice = '2s'", "design.slice", 'no meaning with method = "blocks"'),
        ("method = 'auto'\nslice = '16s'", "design.slice", "a slice of 16 s does not fit twice"),
        ("method = 'duet'\ncovariate = 'steal'", "design.covariate", 'no meaning with method = "duet"'),
        ("method = 'interleaved'\ncovariate = 'steal'", "design.covariate", "no meaning with method"),
        ("method = 'switchback'\ncovariate = 'pressure'", "design.covariate", "no meaning with method"),
        ("precision = '2%'", "design.precision", 'needs stop = "precision"'),
        ("stop = 'decision'\nprecision = '2%'", "design.precision", 'needs stop = "precision"'),
        ("stop = 'precision'", "design.stop", "needs a precision"),
        ("stop = 'precision'\nprecision = 0", "design.precision", "above 0 %"),
        ("looks = 3", "design.looks", "needs a rule for stopping"),
        ("stop = 'decision'\nblocks = 5", "design.blocks", "5 blocks are too few to stop early"),
        ("windows = 8", "design.windows", "windows need a soak"),
        ("soak = '1h'\nblocks = 6", "design.blocks", "a soak has no blocks"),
        ("soak = '1h'\nplacebo = true", "design.placebo", "a soak has no placebo"),
        ("soak = '1h'\nmethod = 'interleaved'", "design.method", 'a soak has no method "interleaved"'),
        ("soak = '1h'\ncache = 'cold'", "design.cache", "a soak has no cold cache"),
        ("soak = '60s'", "design.soak", "windows of 2.5 s are too short"),
        ("soak = '1h'\n[hypothesis]\nmargin = '1%'", "hypothesis", "a soak decides no claim"),
        ("stop = 'decision'\nblocks = 8\nlooks = 9", "design.looks", "9 looks are more than 8 blocks"),
    ],
)
def test_what_does_not_go_together_is_refused(find: Find, design: str, path: str, message: str) -> None:
    problems = find(f"{ARMS}[design]\n{design}\n")

    assert list(problems) == [path]
    assert message in problems[path].message
    assert problems[path].hint


def test_arms_do_not_end_one_by_one_where_every_block_needs_all_of_them(find: Find) -> None:
    factors = "[factors.work_mem]\nlevels = [1, 2]\n[factors.jit]\nlevels = [true, false]\n"

    assert "no meaning with factors" in find(f"{factors}[design]\nstop = 'each-arm'\n")["design.stop"].message


def test_windows_that_are_wrong_are_not_told_as_the_default(find: Find) -> None:
    assert list(find(f"{ARMS}[design]\nsoak = '30s'\nwindows = 3\n")) == ["design.windows"]


def test_a_duet_needs_time_on_each_set_of_cpus(find: Find) -> None:
    text = "duration = '1s'\n" + "".join(f"[arms.{name}]\n" for name in "abcdef") + "[design]\nmethod = 'duet'\n"

    assert "too short for a duet of 6 arms" in find(text)["workload.duration"].message


def test_the_arms_of_factors_are_counted_with_the_placebo(find: Find) -> None:
    factors = "[factors.work_mem]\nlevels = [1, 2, 3]\n[factors.jit]\nlevels = [true, false]\n"
    text = f"duration = '1s'\n{factors}[design]\nmethod = 'duet'\nplacebo = true\n"

    assert "a duet of 7 arms" in find(text)["workload.duration"].message


def test_a_soak_takes_a_single_arm_and_names_no_duration(find: Find) -> None:
    soak = "[design]\nsoak = '1h'\n"

    assert find(f"[arms.a]\n{soak}") == {}
    assert "the duration is that of a window" in find(f"duration = '1s'\n[arms.a]\n{soak}")["workload.duration"].message
