"""REML by statsmodels; Kenward and Roger's adjustments with whole matrices, by their own equations."""

import warnings

import numpy as np
import pytest
from scipy import optimize
from statsmodels.regression.mixed_linear_model import MixedLM

from pgtrial.stats.one_way import fit_one_way

SIZES = [(2, 5), (1, 2, 4, 6), (3, 3, 3, 3), (1, 1, 2, 2, 3, 4, 6, 8), (1,) * 7 + (12,)]


def draw(sizes, *, between, seed, with_second=True):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    values = 5 + rng.normal(0, between, len(sizes))[groups] + rng.normal(size=groups.size)
    design = np.ones((groups.size, 1))
    if with_second:
        design = np.column_stack([design, rng.permutation(np.resize([1.0, -1.0], groups.size))])
    return values, groups, design


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("between", [0.5, 2.0])
def test_estimates_are_those_of_statsmodels(sizes, between):
    values, groups, design = draw(sizes, between=between, seed=len(sizes))
    found = fit_one_way(values, groups, design)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance at its bound
        known = MixedLM(values, design, groups).fit(reml=True, method=["powell", "lbfgs"], gtol=1e-12)

    own, other = (
        restricted_deviance(values, groups, design, w, b)
        for w, b in ((found.within, found.between), (known.scale, float(known.cov_re[0, 0])))
    )
    assert own <= other + 1e-9  # the likelihood is at least as large
    if found.between > 0:
        assert found.effects == pytest.approx(known.fe_params, rel=1e-3, abs=1e-4)
        assert found.within == pytest.approx(known.scale, rel=1e-3)
        assert found.between == pytest.approx(float(known.cov_re[0, 0]), rel=2e-3)


def covariance(groups, within, between):
    return within * np.eye(groups.size) + between * (groups[:, None] == groups[None, :])


def restricted_deviance(values, groups, design, within, between):
    v = covariance(groups, within, between)
    inverse = np.linalg.inv(v)
    squares = design.T @ inverse @ design
    rest = values - design @ np.linalg.solve(squares, design.T @ inverse @ values)
    return np.linalg.slogdet(v)[1] + np.linalg.slogdet(squares)[1] + rest @ inverse @ rest


def kenward_roger(groups, design, within, between):
    """Error and degrees of freedom of the first effect by the equations of the paper, and its scale of F."""
    parts = [np.eye(groups.size), (groups[:, None] == groups[None, :]).astype(float)]
    inverse = np.linalg.inv(covariance(groups, within, between))
    known = np.linalg.inv(design.T @ inverse @ design)
    p = [-design.T @ inverse @ each @ inverse @ design for each in parts]
    q = [[design.T @ inverse @ a @ inverse @ b @ inverse @ design for b in parts] for a in parts]
    information = (
        np.array(
            [
                [
                    np.trace(inverse @ parts[i] @ inverse @ parts[j])
                    - 2 * np.trace(known @ q[i][j])
                    + np.trace(known @ p[i] @ known @ p[j])
                    for j in range(2)
                ]
                for i in range(2)
            ]
        )
        / 2
    )
    w = np.linalg.inv(information)
    sums = sum(w[i, j] * (q[i][j] - p[i] @ known @ p[j]) for i in range(2) for j in range(2))
    adjusted = known + 2 * known @ sums @ known
    row = np.zeros((design.shape[1], 1))
    row[0] = 1
    theta = row @ np.linalg.inv(row.T @ known @ row) @ row.T
    first = [np.trace(theta @ known @ each @ known) for each in p]
    a1 = sum(w[i, j] * first[i] * first[j] for i in range(2) for j in range(2))
    a2 = sum(
        w[i, j] * np.trace(theta @ known @ p[i] @ known @ theta @ known @ p[j] @ known)
        for i in range(2)
        for j in range(2)
    )
    count = 1
    b = (a1 + 6 * a2) / (2 * count)
    g = ((count + 1) * a1 - (count + 4) * a2) / ((count + 2) * a2)
    below = 3 * count + 2 * (1 - g)
    c1, c2, c3 = g / below, (count - g) / below, (count + 2 - g) / below
    mean = 1 / (1 - a2 / count)
    variance = 2 / count * (1 + c1 * b) / ((1 - c2 * b) ** 2 * (1 - c3 * b))
    degrees = 4 + (count + 2) / (count * variance / (2 * mean**2) - 1)
    return np.sqrt(adjusted[0, 0]), degrees, degrees / (mean * (degrees - 2))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("with_second", [False, True])
def test_error_and_degrees_are_those_of_kenward_and_roger(sizes, with_second):
    values, groups, design = draw(sizes, between=1.0, seed=7, with_second=with_second)
    found = fit_one_way(values, groups, design)

    error, degrees, scale = kenward_roger(groups, design, found.within, found.between)

    assert found.error == pytest.approx(error, rel=1e-9)
    assert found.degrees == pytest.approx(degrees, rel=1e-6)
    assert scale == pytest.approx(1, rel=1e-6)


def test_with_equal_groups_it_is_students_t_of_the_means():
    values, groups, design = draw((3, 3, 3, 3, 3), between=1.5, seed=3, with_second=False)
    means = np.bincount(groups, values) / 3

    found = fit_one_way(values, groups, design)

    assert found.effects[0] == pytest.approx(means.mean())
    assert found.error == pytest.approx(means.std(ddof=1) / np.sqrt(5), rel=1e-6)
    assert found.degrees == pytest.approx(4)


@pytest.mark.parametrize("seed", range(6))
def test_no_other_variances_are_more_likely(seed):
    values, groups, design = draw((1, 2, 4, 6), between=0.3 * seed, seed=seed)
    found = fit_one_way(values, groups, design)

    best = optimize.minimize(
        lambda logs: restricted_deviance(values, groups, design, *np.exp(logs)), [0.0, 0.0], method="Nelder-Mead"
    )

    assert restricted_deviance(values, groups, design, found.within, found.between) <= best.fun + 1e-7


def test_values_without_noise_inside_groups_have_the_error_of_their_means():
    groups = np.array([0, 0, 1, 2, 2, 2])

    found = fit_one_way(np.array([1.0, 1.0, 3.0, 8.0, 8.0, 8.0]), groups, np.ones((6, 1)))

    assert found.effects[0] == pytest.approx(4.0, rel=1e-4)
    assert found.within < 1e-6
