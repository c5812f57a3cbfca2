"""Regression against statsmodels; the stratified rank test against a plain one and by permutation."""

import numpy as np
import pytest
from scipy import stats

from segaudit.stats.adjust import ols, van_elteren


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def data(rng, n=120, patients=None):
    sex, age = rng.integers(0, 2, n), rng.uniform(20, 90, n)
    X = np.column_stack([np.ones(n), sex, age])
    y = 0.9 - 0.02 * sex - 0.0003 * age + rng.normal(size=n) * 0.02 * (1 + sex)
    clusters = None if patients is None else rng.integers(0, patients, n)
    return y if clusters is None else y + rng.normal(size=patients)[clusters] * 0.02, X, clusters


NAMES = ["intercept", "sex", "age"]


@pytest.mark.parametrize("patients", [None, 40])
def test_ols__equals_statsmodels(patients, rng):
    import statsmodels.api as sm

    y, X, clusters = data(rng, patients=patients)
    ours = ols(y, X, NAMES, clusters)
    model = sm.OLS(y, X)
    if patients is None:
        theirs = model.fit(cov_type="HC3", use_t=True)
    else:
        theirs = model.fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    assert (ours.status, ours.errors) == ("ok", "HC3" if patients is None else "cluster")
    assert ours.df == (117 if patients is None else len(set(clusters)) - 1)
    for mine, other in (
        (ours.coefficients, theirs.params),
        (ours.se, theirs.bse),
        (ours.t, theirs.tvalues),
        (ours.p, theirs.pvalues),
        (np.stack([ours.low, ours.high], axis=1), theirs.conf_int()),
        (ours.r_squared, theirs.rsquared),
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-8)


def test_ols__one_case_a_patient_is_hc3(rng):
    y, X, _ = data(rng)
    plain, named = ols(y, X, NAMES), ols(y, X, NAMES, [f"p{i}" for i in range(120)])
    assert named.errors == "HC3"
    assert np.array_equal(plain.se, named.se)


def test_ols__shuffled_cases_and_renamed_patients_change_nothing(rng):
    y, X, clusters = data(rng, patients=40)
    order = rng.permutation(120)
    one, two = ols(y, X, NAMES, clusters), ols(y[order], X[order], NAMES, [f"p{c}" for c in -clusters[order]])
    np.testing.assert_allclose(one.se, two.se)
    np.testing.assert_allclose(one.coefficients, two.coefficients)


@pytest.mark.parametrize(
    "columns,named,why",
    [
        (lambda X: np.column_stack([X, X[:, 1] * 2 - 1]), ("extra",), "a combination of intercept and sex"),
        (lambda X: np.column_stack([X, np.zeros(len(X))]), ("extra",), "an attribute level without cases"),
        (lambda X: np.column_stack([X, X[:, 2] * 1e-7]), ("extra",), "the same in another unit"),
        (lambda X: np.column_stack([X, 1 - X[:, 1]]), ("extra",), "both levels beside the intercept"),
    ],
)
def test_ols__collinear_columns_are_named(columns, named, why, rng):
    y, X, _ = data(rng)
    fit = ols(y, columns(X), [*NAMES, "extra"])
    assert (fit.status, fit.collinear) == ("collinear", named), why
    assert np.isnan(fit.coefficients).all()


def test_ols__units_are_no_collinearity(rng):
    y, X, _ = data(rng)
    scaled = ols(y, X * [1, 1e-9, 1e9], NAMES)
    assert scaled.status == "ok"
    np.testing.assert_allclose(scaled.t, ols(y, X, NAMES).t, rtol=1e-6)


@pytest.mark.parametrize("n,clusters,why", [(3, None, "as many columns as cases"), (6, [0] * 6, "one patient")])
def test_ols__too_few_cases(n, clusters, why, rng):
    X = np.column_stack([np.ones(n), np.arange(n), np.arange(n) ** 2])
    assert ols(rng.normal(size=n), X, NAMES, clusters).status == "too_few_cases", why


def test_ols__a_level_of_one_case_has_no_error(rng):
    y, X, _ = data(rng)
    alone = np.zeros(120)
    alone[5] = 1
    fit = ols(y, np.column_stack([X, alone]), [*NAMES, "alone"])
    assert fit.status == "ok"
    assert np.isnan(fit.se[3])
    assert np.isnan(fit.p[3])


@pytest.mark.parametrize(
    "y,X,match", [([1.0, np.nan], [[1], [1]], "finite"), ([1.0, 2.0], [[1, 2], [1, 2]], "a design of")]
)
def test_ols__faults_of_the_program(y, X, match):
    with pytest.raises(ValueError, match=match):
        ols(y, X, ["one"])


@pytest.mark.slow
@pytest.mark.parametrize("patients", [None, 40])
def test_ols__p_is_uniform_without_an_effect(patients, rng):
    p = []
    for _ in range(800):
        n = 120
        sex = rng.integers(0, 2, patients or n)
        who = np.arange(n) if patients is None else rng.integers(0, patients, n)
        noise = rng.normal(size=n) + (0 if patients is None else rng.normal(size=patients)[who])
        p.append(ols(noise, np.column_stack([np.ones(n), sex[who]]), ["intercept", "sex"], who).p[1])
    assert 0.03 < np.mean(np.array(p) < 0.05) < 0.085


def test_van_elteren__one_stratum_is_mann_whitney(rng):
    values, group = np.round(rng.normal(size=60), 1), rng.random(60) < 0.4
    ours = van_elteren(values, group, np.zeros(60))
    theirs = stats.mannwhitneyu(values[group], values[~group], use_continuity=False, method="asymptotic")
    assert ours.p == pytest.approx(theirs.pvalue)
    assert ours.effect == pytest.approx(2 * theirs.statistic / (group.sum() * (~group).sum()) - 1)


def test_van_elteren__moments_are_those_of_shuffles_within_strata(rng):
    stratum = np.repeat([0, 1, 2], [12, 30, 9])
    values, group = np.round(rng.normal(size=51), 1) + stratum, rng.random(51) < 0.5
    weights = 1 / (np.array([12, 30, 9]) + 1)
    ranks = np.concatenate([stats.rankdata(values[stratum == s]) for s in range(3)])
    rows = np.tile(group, (20_000, 1))
    for s in range(3):
        rows[:, stratum == s] = rng.permuted(rows[:, stratum == s], axis=1)
    sums = (rows * ranks * weights[stratum]).sum(axis=1)
    z = ((group * ranks * weights[stratum]).sum() - sums.mean()) / sums.std()
    assert van_elteren(values, group, stratum).z == pytest.approx(z, abs=0.04)


def test_van_elteren__swapping_groups_negates(rng):
    values, group, stratum = rng.normal(size=50), rng.random(50) < 0.5, rng.integers(0, 4, 50)
    one, two = van_elteren(values, group, stratum), van_elteren(values, ~group, stratum)
    assert (one.z, one.p, one.effect) == pytest.approx((-two.z, two.p, -two.effect))


def test_van_elteren__a_confounding_stratum_is_removed(rng):
    """One scanner scores higher and saw more of one group: the plain test finds a gap, the stratified one none."""
    scanner = np.repeat([0, 1], 150)
    group = rng.random(300) < np.where(scanner, 0.8, 0.2)
    values = rng.normal(size=300) + 2 * scanner
    assert stats.mannwhitneyu(values[group], values[~group]).pvalue < 1e-4
    assert van_elteren(values, group, scanner).p > 0.01


@pytest.mark.parametrize(
    "values,group,stratum,n_strata,why",
    [
        ([1, 2, 3], [True] * 3, [0, 0, 1], 0, "no stratum has both groups"),
        ([1, 2, 3, 4], [True, False, True, True], ["a", "a", "b", "b"], 1, "one stratum has one group"),
        ([], [], [], 0, "no cases"),
    ],
)
def test_van_elteren__strata_of_one_group_take_no_part(values, group, stratum, n_strata, why):
    test = van_elteren(values, group, stratum)
    assert test.n_strata == n_strata, why
    assert np.isnan(test.p) == (n_strata == 0), why


def test_van_elteren__identical_values():
    test = van_elteren([1.0] * 4, [0, 1, 0, 1], [0, 0, 1, 1])
    assert (test.z, test.p, test.effect) == (0.0, 1.0, 0.0)
