"""What is combined and what is not, by the rule."""

import math
import shutil
from contextlib import closing

import numpy as np
import pytest

from pgtrial.analysis.compare.experiments import compare_experiments
from pgtrial.analysis.compare.subjects import RULE, letter
from pgtrial.design.registration import attempts_digest
from pgtrial.errors import StoreError
from pgtrial.findings.caveat import caveat
from pgtrial.findings.comparison import ExperimentComparison
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.comparison.words import answer_text
from pgtrial.stats.interval import mean_and_sd
from pgtrial.stats.meta import combine
from pgtrial.store.plans import ATTEMPTS, ATTEMPTS_DIGEST, DIGEST
from pgtrial.store.state import State
from support import EXPERIMENT

SHORT = EXPERIMENT.replace('"10s"', '"3s"').replace("blocks = 6", "blocks = 3")


def claim(found):
    return next(one for one in found.contrasts if one.is_claimed and one.is_overall)


def test_experiments_that_repeat_each_other_are_combined(repeated, read, monday, tuesday, wednesday):
    contrast = claim(repeated)

    # By hand: every experiment's mean log ratio of its blocks, with its standard error.
    logs, hidden = [], []
    for folder in (monday, tuesday, wednesday):
        (effect,) = (
            one
            for one in read(folder).effects
            if (one.arm, one.metric, one.scenario, one.load_level) == ("off", "pgbench.tps", None, "all")
        )
        mean, sd = mean_and_sd([math.log(ratio) for ratio in effect.block_ratios])
        hidden.append(effect.hidden_below)
        logs.append((mean, sd / math.sqrt(len(effect.block_ratios)), len(effect.block_ratios) - 1))
    expected = combine(*zip(*logs, strict=True))
    assert contrast.pooled is not None
    assert contrast.pooled.experiments == 3
    assert contrast.pooled.ratio == pytest.approx(math.exp(expected.mean))
    assert contrast.pooled.low == pytest.approx(math.exp(expected.interval.low - np.mean(hidden)))
    assert contrast.pooled.tau == pytest.approx(expected.tau)
    assert contrast.pooled.low < 2 < contrast.pooled.high
    assert contrast.pooled.decision is Decision.INCONCLUSIVE  # three experiments of three blocks
    assert [study.experiment for study in contrast.studies] == ["A", "B", "C"]


def test_other_metrics_are_combined_as_well_and_said_not_to_be_the_claim(repeated):
    pooled = {one.metric for one in repeated.contrasts if one.pooled and not one.is_claimed}

    assert {"pgbench.latency_mean", "pgbench.latency_p95", "pgbench.latency_p99"} <= pooled


def test_what_differs_between_the_machines_is_known_and_what_is_natural_is_not_told(repeated):
    found = {(one.group, one.name): one for one in repeated.differences}

    assert found["machine", "CPUs"].values == {"A": "2", "B": "4", "C": "2"}
    assert found["machine", "CPUs"].severity is Severity.WARNING
    assert found["setting", "work_mem"].values == {"A": "4MB", "B": "8MB", "C": "4MB"}
    assert not any("boot" in name for _, name in found)
    assert ("setting", "synchronous_commit") not in found  # of the control alone


def test_a_setting_that_a_role_may_not_see_is_no_difference(monday, write, compare):
    seen = {arm: {"jit_provider": "llvmjit"} for arm in ("on", "off", "placebo")}
    all_of_them = write("sees-all", seed=31, settings=seen)
    less = write("sees-less", seed=32)
    hidden = caveat("no-all-settings", role="a", role_name="a")
    with closing(State.open(less, write=True)) as state:
        state.add_caveat(hidden)

    told, hidden_from_one = ({one.name for one in compare(all_of_them, other).differences} for other in (monday, less))

    assert "jit_provider" in told
    assert "jit_provider" not in hidden_from_one


def test_few_experiments_are_a_caveat(repeated):
    assert "few-experiments" in {caveat.code for caveat in claim(repeated).caveats}


def test_the_rule_travels_with_the_result(repeated):
    assert repeated.rule == RULE
    assert ExperimentComparison.model_validate_json(repeated.model_dump_json()) == repeated


def test_arms_are_known_by_what_they_set_and_not_by_their_names(monday, write, compare):
    renamed = SHORT.replace("arms.off", "arms.async").replace("arms.on", "arms.sync")
    other = write("renamed", text=renamed, seed=21, tps={"sync": 500.0, "async": 1000.0})

    contrast = claim(compare(monday, other))

    assert contrast.pooled is not None
    assert [study.arm for study in contrast.studies] == ["off", "async"]


def test_the_same_names_with_other_settings_are_not_combined(monday, write, compare):
    text = SHORT.replace('synchronous_commit = "off"', 'synchronous_commit = "local"')
    other = write("same-names", text=text, seed=22)

    found = compare(monday, other)

    assert not any(one.pooled for one in found.contrasts)
    (apart,) = found.not_combined
    assert apart.reasons == ("arm: synchronous_commit off / local",)
    assert "nothing-combined" in {caveat.code for caveat in found.caveats}


def test_another_load_is_not_combined_and_not_compared_indirectly(monday, other_load, compare):
    found = compare(monday, other_load)

    assert not any(one.pooled for one in found.contrasts)
    assert found.not_combined[0].reasons == ("load levels 4 clients / 8 clients",)
    assert found.indirect == ()


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("supported", "supported"), "off against on: the claim is supported under each of 2 loads (A, B)."),
        (("supported", "refuted"), "depends on the load: supported in A; refuted in B."),
        (("inconclusive", "supported"), "not decided under all loads: inconclusive in A; supported in B."),
    ],
)
def test_a_claim_under_several_loads_holds_where_it_holds_in_each(monday, other_load, read, verdicts, said):
    def as_if(folder):
        found = read(folder)
        verdict = Verdict(verdicts[folder == other_load])
        return found.model_copy(update={"hypothesis": found.hypothesis.model_copy(update={"verdict": verdict})})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pgtrial.analysis.compare.subjects.analyze", as_if)
        found = compare_experiments((monday, other_load))
    (one,) = found.under_loads
    assert list(one.verdicts.values()) == list(verdicts)
    assert answer_text(found).endswith(said)


def test_one_load_or_another_margin_is_not_the_same_claim_under_loads(repeated, monday, write, compare):
    other = write("stricter", text=SHORT.replace("clients = 4", "clients = 8").replace('"5%"', '"2%"'), seed=44)
    assert '"2%"' in (other / "experiment.toml").read_text()
    assert not repeated.under_loads
    assert not compare(monday, other).under_loads


def test_a_longer_run_is_told_and_combined(monday, write, compare):
    longer = write("longer", text=SHORT.replace('"3s"', '"10s"'), seed=23)

    found = compare(monday, longer)

    assert claim(found).pooled is not None
    difference = next(one for one in found.differences if one.name == "duration")
    assert difference.values == {"A": "3 s per load level", "B": "10 s per load level"}


def test_arms_that_only_share_the_control_are_compared_indirectly_with_a_caveat(monday, tuesday, other_arm, compare):
    found = compare(monday, tuesday, other_arm)

    (indirect,) = found.indirect
    assert indirect.title == "group against off"
    assert indirect.experiments == (("A", "B"), ("C",))
    assert indirect.low < 0.7 < indirect.high
    assert indirect.ratio == pytest.approx(0.7, rel=0.1)
    assert "indirect" in {caveat.code for caveat in found.caveats}
    # The interval holds the noise of both sides: it is wider than either.
    widths = {
        one.title: math.log(one.studies[0].high / one.studies[0].low) for one in found.contrasts if one.is_claimed
    }
    assert math.log(indirect.high / indirect.low) > widths["group against on"] / 2


def test_arms_of_one_name_are_told_apart_by_their_experiments(monday, write, compare):
    text = SHORT.replace('synchronous_commit = "off"', 'synchronous_commit = "local"')

    (indirect,) = compare(monday, write("same-names-again", text=text, seed=22)).indirect

    assert indirect.title == "off of B against off of A"


def test_two_experiments_have_an_interval_of_their_own_mean(monday, tuesday, compare):
    contrast = claim(compare(monday, tuesday))
    pooled = contrast.pooled

    widest = max(math.log(study.high / study.low) for study in contrast.studies)
    assert math.log(pooled.these_high / pooled.these_low) < widest
    assert pooled.these_low < pooled.ratio < pooled.these_high


@pytest.fixture
def compare_as(read, monkeypatch):
    """What is said of two experiments of six blocks, whose effects have this beside what was found."""

    def build(*folders, **found):
        def analyzed(folder):
            findings = read(folder)
            effects = tuple(effect.model_copy(update=found) for effect in findings.effects)
            return findings.model_copy(update={"effects": effects})

        monkeypatch.setattr("pgtrial.analysis.compare.subjects.analyze", analyzed)
        return claim(compare_experiments(folders))

    return build


@pytest.fixture(scope="module")
def whole(write):
    return tuple(write(f"whole-{seed}", text=EXPERIMENT.replace('"10s"', '"3s"'), seed=seed) for seed in (31, 32))


def test_what_the_experiments_bear_is_borne_by_what_is_said_of_them_together(whole, compare_as):
    plain = compare_as(*whole, hidden_below=0.0, hidden_above=0.0).pooled
    borne = compare_as(*whole, hidden_below=1.0, hidden_above=0.25).pooled

    assert plain.decision is Decision.BETTER
    assert borne.decision is Decision.INCONCLUSIVE
    assert borne.low == pytest.approx(plain.low * math.exp(-1))
    assert borne.high == pytest.approx(plain.high * math.exp(0.25))
    assert borne.these_low == pytest.approx(plain.these_low * math.exp(-1))


def test_blocks_of_an_experiment_without_an_effect_are_not_combined(whole, compare_as):
    """Some run has no value: its other blocks, which the findings still have, are those without the worst ones."""
    contrast = compare_as(*whole, ratio=None, log_error=None, degrees=None)

    assert contrast.pooled is None
    assert {study.left_out for study in contrast.studies} == {"its blocks do not tell how sure it is"}


def test_effects_of_which_slices_tell_nothing_are_not_combined(whole, compare_as):
    untold = caveat("untold-by-slices")
    contrast = compare_as(*whole, low=None, high=None, log_error=None, degrees=None, caveats=(untold,))

    assert contrast.pooled is None
    assert {study.left_out for study in contrast.studies} == {"its blocks do not tell how sure it is"}


def test_few_experiments_of_few_blocks_decide_nothing_together(monday, whole, compare_as):
    assert compare_as(whole[0], monday).pooled.decision is Decision.INCONCLUSIVE


def set_attempt(folder, before):
    with closing(State.open(folder, write=True)) as state:
        state.set_meta(**{ATTEMPTS: str(before), ATTEMPTS_DIGEST: attempts_digest(state.meta()[DIGEST], str(before))})


def test_where_attempts_are_left_out_nothing_is_decided(write, compare):
    attempts = [write(f"attempt-{number}", text=EXPERIMENT, seed=30 + number) for number in range(3)]
    for before, folder in enumerate(attempts):
        set_attempt(folder, before)

    every, some = claim(compare(*attempts)), claim(compare(attempts[0], attempts[2]))

    assert every.pooled.decision is Decision.BETTER
    assert "absent-attempts" not in {caveat.code for caveat in every.caveats}
    assert some.pooled.decision is Decision.INCONCLUSIVE
    assert some.caveats[0].text.startswith("Of 3 attempts at the claim 1 is not among these experiments: ")


def test_attempts_at_a_claim_are_combined_as_surely_as_the_last_of_them(monday, write, compare):
    again = write("again", seed=12)
    set_attempt(again, 2)

    pooled = claim(compare(monday, again)).pooled

    assert pooled is not None
    assert pooled.confidence == pytest.approx(1 - 0.05 / 6)


def test_arms_of_one_experiment_are_left_to_it(write, compare):
    text = SHORT.replace("[design]", "[arms.group.postgresql]\ncommit_delay = 100\n\n[design]")
    both = [
        write(f"both-{seed}", text=text, seed=seed, tps={"on": 500.0, "off": 900.0, "group": 700.0}) for seed in (1, 2)
    ]

    assert compare(*both).indirect == ()


def test_an_experiment_with_an_invalid_verdict_is_shown_and_not_combined(monday, tuesday, write, compare):
    facts = {"on": {"machine/CPUs": "2"}, "off": {"machine/CPUs": "4"}, "placebo": {"machine/CPUs": "2"}}
    spoiled = write("spoiled", seed=24, facts=facts)

    found = compare(monday, tuesday, spoiled)

    contrast = claim(found)
    assert contrast.pooled is not None
    assert contrast.pooled.experiments == 2
    assert [study.left_out for study in contrast.studies] == ["", "", "its verdict is invalid"]
    assert "experiment-left-out" in {caveat.code for caveat in found.caveats}


def test_effects_that_differ_by_more_than_noise_are_a_caveat(monday, write, compare):
    other = write("far", seed=25, tps={"on": 500.0, "off": 3000.0})

    contrast = claim(compare(monday, other))

    assert contrast.pooled is not None
    assert contrast.pooled.i2 > 0.9
    assert "heterogeneous" in {caveat.code for caveat in contrast.caveats}


def test_an_experiment_that_goes_on_is_told(monday, write, compare):
    half = write("half", seed=26, runs=6)

    found = compare(monday, half)

    assert not found.experiments[1].is_finished
    assert "unfinished" in {caveat.code for caveat in found.caveats}


def test_nothing_is_decided_together_with_an_experiment_that_somebody_may_have_stopped(write, compare):
    whole = [write(f"whole-{seed}", seed=seed) for seed in range(41, 47)]
    half = write("stopped", seed=47, runs=6)

    decided, chosen = claim(compare(*whole)).pooled, claim(compare(*whole, half)).pooled

    assert (decided.decision, decided.provisional) == (Decision.BETTER, False)
    assert (chosen.decision, chosen.provisional) == (Decision.INCONCLUSIVE, True)


def test_what_experiments_lean_by_that_a_rule_may_end_is_in_the_combined_interval(write, compare):
    text = SHORT.replace("placebo = true", 'placebo = false\nstop = "decision"').replace("blocks = 3", "blocks = 8")
    fixed = text.replace('stop = "decision"', 'stop = "never"')
    plain, ruled = (
        claim(compare(*(write(f"{name}-{seed}", text=text, seed=seed) for seed in (51, 52, 53))))
        for name, text in (("fixed", fixed), ("ruled", text))
    )
    lean = np.mean([study.lean for study in ruled.studies])

    assert [study.lean for study in plain.studies] == [0.0] * 3
    assert [study.lean for study in ruled.studies] == pytest.approx([0.3 * study.log_error for study in ruled.studies])
    assert ruled.pooled.ratio == pytest.approx(plain.pooled.ratio)
    assert math.log(ruled.pooled.low) == pytest.approx(math.log(plain.pooled.low) - lean)
    assert math.log(ruled.pooled.high) == pytest.approx(math.log(plain.pooled.high) + lean)


def test_load_levels_are_combined_one_by_one(write, compare):
    text = SHORT.replace("clients = 4", "clients = [4, 9]")
    found = compare(*(write(f"levels-{seed}", text=text, seed=seed) for seed in (31, 32)))

    labels = [one.load_level for one in found.contrasts if one.is_claimed and one.pooled]

    assert labels == ["all load levels", "4 clients", "9 clients"]


def test_a_copy_of_an_experiment_is_refused(monday, tmp_path, compare):
    shutil.copytree(monday, tmp_path / "copy")

    with pytest.raises(StoreError, match="hold the same runs"):
        compare(monday, tmp_path / "copy")


def test_a_missing_folder_is_named(monday, tmp_path):
    with pytest.raises(StoreError, match=f'folder "{tmp_path / "gone"}"'):
        compare_experiments([monday, tmp_path / "gone"])


def test_a_folder_without_a_finished_run_is_refused(monday, write):
    empty = write("empty", seed=27, runs=0)

    with pytest.raises(StoreError, match="no finished run") as caught:
        compare_experiments([monday, empty])

    assert "pgtrial resume" in caught.value.hint


def test_letters_go_on_after_the_alphabet():
    assert [letter(number) for number in (0, 25, 26, 27)] == ["A", "Z", "A2", "B2"]
