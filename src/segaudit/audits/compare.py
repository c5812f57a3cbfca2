"""What is said between groups: rank tests, disparities with intervals, sweeps over thresholds."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from segaudit.audits.cells import Cell, Division, Floats, Group
from segaudit.audits.plan import Plan
from segaudit.stats import disparity, effects, intervals, resample, tests

Row = dict[str, Any]
_SHUFFLES = 2_000  # draws for the gap expected under parity; its mean is known to 2 % then


def generator(plan: Plan, *names: str) -> np.random.Generator:
    """Return the generator of one cell: it depends on the seed and the cell's names alone, not on other cells."""
    return np.random.default_rng([plan.seed, *(zlib.crc32(name.encode()) for name in names)])


def tested_groups(cell: Cell, division: Division, plan: Plan) -> list[Group]:
    """Return the groups of a cell with enough patients for inference."""
    return [group for group in cell.groups(division) if group.n_patients >= plan.min_patients]


def missing_status(cell: Cell, division: Division) -> str:
    """Return why fewer than two groups can be compared."""
    present = sum(group.n_patients > 0 for group in cell.groups(division))
    return ("undefined", "one_group")[present] if present < 2 else "too_few_patients"


def test_rows(cell: Cell, division: Division, plan: Plan) -> Iterator[Row]:
    """Yield the omnibus test of a cell and grouping and, for three or more groups, Dunn's pairs.

    The unit is the patient: a patient's score in a group is the mean over the patient's cases there. A planned test
    that cannot be had is a row with its status.
    """
    base = {**cell.named(), "grouping": division.grouping.name}
    groups = tested_groups(cell, division, plan)
    planned = len(division.grouping.levels)
    if len(groups) < 2:
        name = "mann_whitney" if planned == 2 else "kruskal_wallis"
        yield {**_blank_test(base, name), "status": missing_status(cell, division)}
        return
    rng = omnibus_generator(cell, division, plan)
    units = [group.patient_means() for group in groups]
    sizes = {"n_cases": sum(g.values.size for g in groups), "n_patients": sum(g.n_patients for g in groups)}
    found = omnibus(units, rng)
    if len(groups) == 2:
        reference, group = groups
        limits = effects.rank_biserial_interval(found.effect, units[1].size, units[0].size, plan.level)
        named = {"group": group.name, "reference_group": reference.name}
    else:
        limits = effects.epsilon_squared_interval(units, plan.level, min(plan.resamples, _SHUFFLES), rng)
        named = {}
    yield {
        **_blank_test(base, found.test),
        **named,
        **sizes,
        "statistic": found.statistic,
        "p": found.p,
        "effect_name": found.effect_name,
        "effect": found.effect,
        "effect_low": limits.low,
        "effect_high": limits.high,
        "eta_squared_h": found.eta_squared_h if len(groups) > 2 else np.nan,
        "p_method": found.method,
        "status": "ok" if found.method != "none" else "saturated",
    }
    if len(groups) > 2:
        yield from _dunn_rows(base, groups, units)


def omnibus_generator(cell: Cell, division: Division, plan: Plan) -> np.random.Generator:
    """Return the generator of the omnibus test of a cell and grouping."""
    return generator(plan, *cell.drawn_by, division.grouping.name, "tests")


def omnibus(units: list[Floats], rng: np.random.Generator) -> tests.RankTest:
    """Return the test over the groups, each its patients' scores, the reference group first."""
    return tests.mann_whitney(units[1], units[0], rng=rng) if len(units) == 2 else tests.kruskal_wallis(units, rng=rng)


def _dunn_rows(base: Row, groups: list[Group], units: list[Floats]) -> Iterator[Row]:
    for pair in tests.dunn(units):
        reference, group = groups[pair.first], groups[pair.second]
        # signed as every contrast: positive when the group ranks above the reference group
        yield {
            **_blank_test(base, "dunn"),
            "group": group.name,
            "reference_group": reference.name,
            "statistic": -pair.z,
            "p": pair.p,
            "q": pair.p_holm,
            "family": f"dunn: {base['grouping']}",
            "n_cases": group.values.size + reference.values.size,
            "n_patients": group.n_patients + reference.n_patients,
            "p_method": "asymptotic",
            "status": "ok",
        }


def _blank_test(base: Row, test: str) -> Row:
    blank = dict.fromkeys(("group", "reference_group", "family", "effect_name"), "") | {"p_method": "none"}
    numbers = dict.fromkeys(
        (
            "statistic",
            "p",
            "q",
            "effect",
            "effect_low",
            "effect_high",
            "eta_squared_h",
            "q_holm",
            "q_by",
            "q_joint",
            "q_wy",
        ),
        np.nan,
    )
    return {**base, "test": test, "n_cases": 0, "n_patients": 0, **blank, **numbers}


def disparity_rows(cell: Cell, division: Division, plan: Plan) -> Iterator[Row]:
    """Yield DIR, DPD and the median gap over all tested groups, then the contrasts of each pair, with intervals."""
    base = {**cell.named(), "grouping": division.grouping.name}
    groups = tested_groups(cell, division, plan)
    rated = cell.card.name in plan.success
    if len(groups) < 2:
        status = missing_status(cell, division)
        for name in (*(("dir", "dpd") if rated else ()), "median_gap"):
            yield {**_blank_disparity(base, name), "status": status}
        return
    if rated:
        yield from _rate_rows(base, cell, groups, plan)
    yield from _median_rows(base, cell, groups, plan)


def _rate_rows(base: Row, cell: Cell, groups: list[Group], plan: Plan) -> Iterator[Row]:
    counts = [group.patient_successes(cell.card, plan.success[cell.card.name]) for group in groups]
    codes = np.repeat(np.arange(len(groups)), [good.size for good, _ in counts])
    table = resample.rate_table(
        codes, np.concatenate([good for good, _ in counts]), np.concatenate([n for _, n in counts]), len(groups)
    )
    sizes = np.array([intervals.effective_size(good, n) for good, n in counts])
    successes = table.rates * sizes
    rng = generator(plan, *cell.drawn_by, str(base["grouping"]), "rates")
    drawn = resample.bootstrap_disparities(table, plan.level, plan.resamples, rng)
    shuffled = resample.permute_disparities(table, plan.resamples, rng)
    status = disparity.rate_status(table.group_successes, table.group_cases)
    yield {
        **_blank_disparity(base, "dir"),
        "value": float(disparity.disparate_impact_ratio(table.rates)),
        **_limits(intervals.dir_interval(successes, sizes, plan.level), "mover_r"),
        "expected_under_parity": shuffled.expected_dir,
        "bca_low": drawn.dir.low,
        "bca_high": drawn.dir.high,
        "p_permutation": shuffled.p_dir,
        "status": status,
    }
    yield {
        **_blank_disparity(base, "dpd"),
        "value": float(disparity.demographic_parity_difference(table.rates)),
        **_limits(intervals.dpd_interval(successes, sizes, plan.level), "newcombe"),
        "expected_under_parity": shuffled.expected_dpd,
        "bca_low": drawn.dpd.low,
        "bca_high": drawn.dpd.high,
        "p_permutation": shuffled.p_dpd,
        "status": "saturated" if status == "undefined" else status,
    }
    for i, j in itertools.combinations(range(len(groups)), 2):
        named = {"group": groups[j].name, "reference_group": groups[i].name}
        pair = (successes[j], sizes[j], successes[i], sizes[i])
        rates = table.rates[[j, i]]
        ratio, difference = float(disparity.rate_ratio(rates)), float(disparity.rate_difference(rates))
        alone = disparity.rate_status(table.group_successes[[j, i]], table.group_cases[[j, i]])
        yield {
            **_blank_disparity(base, "rate_ratio"),
            **named,
            "value": ratio if np.isfinite(ratio) else np.nan,
            **_limits(intervals.mover_r(*pair, plan.level), "mover_r"),
            "status": alone if np.isfinite(ratio) else "undefined",
        }
        yield {
            **_blank_disparity(base, "rate_difference"),
            **named,
            "value": difference,
            **_limits(intervals.newcombe(*pair, plan.level), "newcombe"),
            "status": "saturated" if alone == "undefined" else alone,
        }


def _median_rows(base: Row, cell: Cell, groups: list[Group], plan: Plan) -> Iterator[Row]:
    rng = generator(plan, *cell.drawn_by, str(base["grouping"]), "medians")
    units = [group.patient_means() for group in groups]
    medians = disparity.group_medians(units)
    expected = resample.expected_median_gap(units, min(plan.resamples, _SHUFFLES), rng)
    gap = float(disparity.median_gap(medians))
    yield {
        **_blank_disparity(base, "median_gap"),
        "value": _stored(gap),
        **_limits(intervals.median_gap_interval(units, plan.level, plan.resamples, rng), "bootstrap"),
        "expected_under_parity": _stored(expected.mean),
        "status": "ok" if np.isfinite(gap) else "undefined",
    }
    for i, j in itertools.combinations(range(len(groups)), 2):
        named = {"group": groups[j].name, "reference_group": groups[i].name}
        difference = float(disparity.median_difference(medians[[j, i]]))
        yield {
            **_blank_disparity(base, "median_difference"),
            **named,
            "value": _stored(difference),
            **_limits(
                intervals.median_difference_interval(units[j], units[i], plan.level, plan.resamples, rng), "bootstrap"
            ),
            "status": "ok" if np.isfinite(difference) else "undefined",
        }
        shift = intervals.hodges_lehmann(units[j], units[i], plan.level)
        yield {
            **_blank_disparity(base, "hodges_lehmann"),
            **named,
            "value": shift.value,
            "low": shift.low,
            "high": shift.high,
            "method": "moses",
            "status": "ok" if np.isfinite(shift.value) else "undefined",
        }


def sweep_rows(cell: Cell, division: Division, plan: Plan) -> Iterator[Row]:
    """Yield success counts of each tested group and DIR and DPD at each threshold of the sweep."""
    declared = plan.success.get(cell.card.name)
    thresholds = sorted({*plan.sweep.get(cell.card.name, ()), *(() if declared is None else (declared,))})
    groups = tested_groups(cell, division, plan)
    if len(groups) < 2:
        return
    for threshold in thresholds:
        counts = [group.patient_successes(cell.card, threshold) for group in groups]
        good = np.array([k.sum() for k, _ in counts])
        total = np.array([n.sum() for _, n in counts])
        sizes = np.array([intervals.effective_size(*pair) for pair in counts])
        rates = good / total
        ratio = intervals.dir_interval(rates * sizes, sizes, plan.level)
        difference = intervals.dpd_interval(rates * sizes, sizes, plan.level)
        for i, group in enumerate(groups):
            yield {
                **cell.named(),
                "grouping": division.grouping.name,
                "threshold": threshold,
                "group": group.name,
                "n_cases": int(total[i]),
                "n_success": int(good[i]),
                "success_rate": float(rates[i]),
                "dir": float(disparity.disparate_impact_ratio(rates)),
                "dir_low": float(ratio.low),
                "dir_high": float(ratio.high),
                "dpd": float(disparity.demographic_parity_difference(rates)),
                "dpd_low": float(difference.low),
                "dpd_high": float(difference.high),
                "status": disparity.rate_status(good, total),
            }


def _limits(limits: intervals.Limits, method: str) -> Row:
    return {"low": _stored(float(limits.low)), "high": _stored(float(limits.high)), "method": method}


def _stored(value: float) -> float:
    return value if np.isfinite(value) else np.nan


def _blank_disparity(base: Row, name: str) -> Row:
    words = {"group": "", "reference_group": "", "method": ""}
    numbers = ("value", "low", "high", "expected_under_parity", "bca_low", "bca_high", "p_permutation")
    return {**base, "disparity": name, **words, **dict.fromkeys(numbers, np.nan)}
