"""Sensitivity: which choices of the audit, made otherwise, change a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from segaudit.audits.cells import KEY, Cell, Division, Floats, Group, cells, divide
from segaudit.audits.compare import generator, omnibus, omnibus_generator, tested_groups
from segaudit.audits.families import OMNIBUS, PRIMARY
from segaudit.audits.plan import Plan
from segaudit.stats import disparity
from segaudit.stats.family import Adjustment, adjust
from segaudit.stats.influence import omission_p
from segaudit.stats.means import permutation_of_means, takes_law
from segaudit.tables import SENSITIVITY

if TYPE_CHECKING:
    from segaudit.audits.base import Audit

Row = dict[str, Any]
FOUR_FIFTHS = 0.8
GAP, NO_GAP, UNTESTED = "gap found", "no gap shown", "not tested"
_FEW_DRAWS = 999
_SHUFFLED = 40_000_000  # scores that the test of means may shuffle
_BY_COLUMN = {"holm": "q_holm", "by": "q_by", "westfall_young": "q_wy", "joint": "q_joint"}


@dataclass(frozen=True)
class _Test:
    """An omnibus test of the audit with what it was made of.

    Attributes
    ----------
    row : mapping
        Of the tests.
    cell, division : Cell, Division
    groups : list of Group
        The tested groups; fewer than two where nothing was tested.
    family : array of int
        Places, among the omnibus tests, of the tests that it was adjusted with.
    at : int
        Its place among the omnibus tests.
    """

    row: Row
    cell: Cell
    division: Division
    groups: list[Group]
    family: np.ndarray
    at: int

    @property
    def tested(self) -> bool:
        """Whether the audit has a p."""
        return len(self.groups) > 1 and bool(np.isfinite(self.row["p"]))


@dataclass(frozen=True)
class _Known:
    """The audit as its changes are measured against it: plan, case names, omnibus tests and their p."""

    plan: Plan
    cases: np.ndarray
    tests: list[_Test]
    p: Floats

    def q(self, test: _Test, p: float | Floats, method: Adjustment | None = None) -> float:
        """Return the adjusted p of a test whose own p (or, given as an array, every p of the audit) is another."""
        values = np.where(np.arange(self.p.size) == test.at, p, self.p) if np.ndim(p) == 0 else np.asarray(p)
        adjusted = adjust(values[test.family], method or self.plan.method)
        return float(adjusted[np.flatnonzero(test.family == test.at)[0]])

    def verdict(self, q: float) -> str:
        """Return the word on a gap."""
        return UNTESTED if np.isnan(q) else GAP if q < self.plan.alpha else NO_GAP


def sensitivity(audit: Audit) -> pd.DataFrame:
    """Return, for every omnibus test of an audit, which choices made otherwise change its verdict.

    Parameters
    ----------
    audit : Audit

    Returns
    -------
    DataFrame
        One row a test and change, in the columns of `segaudit.tables.SENSITIVITY`. Changes:

        ``leave_one_case_out``
            The case whose omission changes the verdict, else the one that moves p furthest.
        ``threshold``
            Whether DIR crosses four fifths at another threshold of the sweep.
        ``both_empty: ...``, ``prediction_missing: ...``
            The other rules for a score that is no number; every test of the family follows the rule.
        ``mean: test``, ``mean: worst group``
            Groups compared by their means: a permutation test, and which group is worst.
        ``family: ...``
            The same p adjusted otherwise.
        ``hd95: ...``
            Another convention of HD95, where one was scored.

    Notes
    -----
    The verdict is the audit's own: gap found where the adjusted p lies below alpha. Where one test changes (a case left
    out, means in place of ranks), its new p is adjusted among the family's other p values as they are. No number of
    changed verdicts is evidence of anything but that the verdict leans on a choice.
    """
    known = _known(audit)
    ruled = dict(_ruled(audit, known))
    sweeps = dict(iter(audit.sweeps.groupby([*KEY, "grouping"], sort=False)))
    rows: list[Row] = []
    for test in known.tests:
        rows.append(_leave_one_out(test, known))
        rows.append(_threshold(test, known, sweeps.get((*test.cell.key, test.division.grouping.name))))
        rows += _undefined(test, known, ruled)
        rows += _means(test, known)
        rows += _families(test, known)
        rows += _hd95(test, known)
    return SENSITIVITY.frame(rows)


def _known(audit: Audit) -> _Known:
    found = {cell.key: cell for cell in cells(audit.scores, audit.cases, audit.plan)}
    divisions = {division.grouping.name: division for division in divide(audit.plan, audit.cases)}
    table = audit.tests[audit.tests["test"].isin(OMNIBUS)].reset_index(drop=True)
    by = ["model", "family"] if audit.plan.scope == "joint" else ["model", "ruler", "family"]
    together = table.groupby(by, sort=False).indices
    tests = []
    for i, row in enumerate(table.to_dict("records")):
        cell = found[row["model"], row["ruler"], row["label"], row["metric"]]
        division = divisions[row["grouping"]]
        family = np.asarray(together[tuple(row[name] for name in by)])
        groups = tested_groups(cell, division, audit.plan)
        tests.append(_Test({str(k): v for k, v in row.items()}, cell, division, groups, family, i))
    return _Known(audit.plan, audit.cases["case"].to_numpy(), tests, table["p"].to_numpy(dtype=np.float64))


def _row(test: _Test, known: _Known, change: str, **given: Any) -> Row:
    """Return a row; unless given, everything is as in the audit and the change could be tried."""
    q = float(test.row["q"])
    row = {
        **test.cell.named(),
        "grouping": test.division.grouping.name,
        "change": change,
        "p_before": test.row["p"],
        "p_after": np.nan,
        "q_before": q,
        "q_after": np.nan,
        "verdict_before": known.verdict(q),
        "verdict_after": "",
        "detail": "",
        "status": "ok",
        **given,
    }
    tried = row["status"] == "ok"
    return {**row, "changes": ("no", "yes")[row["verdict_before"] != row["verdict_after"]] if tried else ""}


def _tested(test: _Test, known: _Known, change: str, p: float, q: float, detail: str) -> Row:
    given = {"p_after": p, "q_after": q, "verdict_after": known.verdict(q), "detail": detail}
    untested = np.isnan(p) and not test.tested
    return _row(test, known, change, **given, **({"status": str(test.row["status"])} if untested else {}))


def _cannot(test: _Test, known: _Known, change: str, detail: str = "") -> Row:
    """Return the row of a change that could not be tried: for want of a test, or for the reason given."""
    status = "undefined" if test.tested else str(test.row["status"])
    return _row(test, known, change, status=status, detail=detail if test.tested else "")


def _leave_one_out(test: _Test, known: _Known) -> Row:
    """Return the row of the case that the verdict leans on most.

    p by the large-sample law picks the two cases that move it furthest down and up; for these the test itself is run
    again, so that the row's p is of the same kind as the audit's. The groups stay those that were tested.
    """
    change = "leave_one_case_out"
    if not test.tested:
        return _cannot(test, known, change)
    positions = np.flatnonzero(np.isin(test.division.codes[test.cell.cases], _codes(test)))
    codes = np.searchsorted(_codes(test), test.division.codes[test.cell.cases[positions]])
    width = int(test.cell.patients.max()) + 1
    units, unit_of = np.unique(codes * width + test.cell.patients[positions], return_inverse=True)
    group_of = units // width
    values = np.concatenate([group.patient_means() for group in test.groups])
    rest = _mean_of_rest(test.cell.values[positions], unit_of)
    p = omission_p(values, group_of, unit_of, rest)
    tried = []
    for i in (int(np.argmin(p)), int(np.argmax(p))):
        changed = values.copy()
        changed[unit_of[i]] = rest[i]
        left = [changed[(group_of == j) & ~np.isnan(changed)] for j in range(len(test.groups))]
        tried.append((omnibus(left, omnibus_generator(test.cell, test.division, known.plan)).p, i))
    before = float(test.row["p"])
    found, i = max(
        tried,
        key=lambda one: (
            known.verdict(known.q(test, one[0])) != known.verdict(float(test.row["q"])),
            abs(one[0] - before),
        ),
    )
    score = test.cell.values[positions[i]]
    where = test.groups[int(group_of[unit_of[i]])].name
    detail = f"without {known.cases[test.cell.cases[positions[i]]]} ({where}, {score:.4g})"
    return _tested(test, known, change, found, known.q(test, found), detail)


def _codes(test: _Test) -> np.ndarray:
    """Return the codes of the tested groups within their grouping, ascending."""
    names = {group.name for group in test.groups}
    return np.array([i for i, level in enumerate(test.division.grouping.levels) if level in names])


def _mean_of_rest(values: Floats, unit: np.ndarray) -> Floats:
    """Return, for each case, the mean over the other cases of its unit; NaN where there is none."""
    infinite = np.isinf(values)
    n, worst = np.bincount(unit), np.bincount(unit, weights=infinite)
    total = np.bincount(unit, weights=np.where(infinite, 0.0, values))
    others = n[unit] - 1
    mean = (total[unit] - np.where(infinite, 0.0, values)) / np.maximum(others, 1)
    mean[worst[unit] - infinite > 0] = np.inf
    return np.where(others > 0, mean, np.nan)


def _threshold(test: _Test, known: _Known, sweep: pd.DataFrame | None) -> Row:
    """Return the row of the nearest threshold at which DIR reads otherwise against four fifths."""
    nothing = {"p_before": np.nan, "q_before": np.nan, "verdict_before": ""}
    declared = known.plan.success.get(test.cell.card.name)
    if not test.tested or declared is None or sweep is None:
        why = "no threshold of success is declared" if declared is None else ""
        return {**_cannot(test, known, "threshold", why), **nothing}
    ratios = sweep.drop_duplicates("threshold").set_index("threshold")["dir"].dropna()
    if declared not in ratios.index:
        return {**_cannot(test, known, "threshold", f"DIR is undefined at {declared:g}"), **nothing}
    below = ratios < FOUR_FIFTHS
    words = {True: "DIR below 0.8", False: "DIR not below 0.8"}
    own = bool(below[declared])
    crossed = ratios.index[below != own]
    after = min(crossed, key=lambda at: abs(at - declared), default=declared)
    told = ", ".join(f"{ratios[at]:.3f} at {at:g}" for at in ratios.index)
    given = {"verdict_before": words[own], "verdict_after": words[bool(below[after])], "detail": f"DIR {told}"}
    return _row(test, known, "threshold", **{**nothing, **given})


def _ruled(audit: Audit, known: _Known) -> Iterator[tuple[str, Floats | None]]:
    """Yield each other rule for a score that is no number, with every p under it; None where no score has the case."""
    plan, table = audit.plan, audit.scores.table
    both: tuple[Literal["exclude", "best", "worst"], ...] = ("exclude", "best", "worst")
    missing: tuple[Literal["failure", "exclude"], ...] = ("failure", "exclude")
    others: list[tuple[str, str, Plan]] = [("both_empty", rule, replace(plan, both_empty=rule)) for rule in both]
    others += [("prediction_missing", rule, replace(plan, prediction_missing=rule)) for rule in missing]
    for status, rule, other in others:
        hit = table[table["status"] == status]
        if other == plan:
            continue
        if hit.empty:
            yield f"{status}: {rule}", None
            continue
        keys = pd.MultiIndex.from_frame(hit[KEY].drop_duplicates())
        part = replace(audit.scores, table=table[pd.MultiIndex.from_frame(table[KEY]).isin(keys)])
        found = {cell.key: cell for cell in cells(part, audit.cases, other)}
        p = known.p.copy()
        for test in known.tests:
            if (cell := found.get(test.cell.key)) is not None:
                groups = tested_groups(cell, test.division, other)
                units = [group.patient_means() for group in groups]
                rng = omnibus_generator(cell, test.division, other)
                p[test.at] = omnibus(units, rng).p if len(groups) > 1 else np.nan
        yield f"{status}: {rule}", p


def _undefined(test: _Test, known: _Known, ruled: dict[str, Floats | None]) -> Iterator[Row]:
    for change, p in ruled.items():
        if p is None:
            yield _tested(test, known, change, float(test.row["p"]), float(test.row["q"]), "no score is concerned")
        else:
            yield _tested(test, known, change, float(p[test.at]), known.q(test, p), "the whole family by this rule")


def _means(test: _Test, known: _Known) -> Iterator[Row]:
    """Yield the permutation test of the group means, and the worst group by medians and by means."""
    nothing = {"p_before": np.nan, "q_before": np.nan, "verdict_before": ""}
    changes = ("mean: test", "mean: worst group")
    units = [group.patient_means() for group in test.groups]
    finite = all(np.isfinite(values).all() for values in units)
    if not test.tested or not finite:
        why = "" if finite else "an infinite score has no mean"
        yield _cannot(test, known, changes[0], why)
        yield {**_cannot(test, known, changes[1], why), **nothing}
        return
    rng = generator(known.plan, *test.cell.drawn_by, test.division.grouping.name, "means")
    n = sum(values.size for values in units)
    p = permutation_of_means(units, draws=min(_FEW_DRAWS, known.plan.resamples), rng=rng)
    draws = int(np.clip(_SHUFFLED // n, _FEW_DRAWS, known.plan.resamples)) if known.plan.resamples > _FEW_DRAWS else 0
    shuffled = not takes_law([values.size for values in units])
    if p <= known.plan.alpha and draws and shuffled:  # a p that may count is found anew with more draws
        p = permutation_of_means(units, draws=draws, rng=rng)
    law = "" if shuffled else " (its large-sample law)"
    detail = f"permutation of patients, sum of squares between the means{law}"
    yield _tested(test, known, changes[0], p, known.q(test, p), detail)
    worst = np.argmin if test.cell.card.better == "higher" else np.argmax
    centres = {"medians": disparity.group_medians(units), "means": np.array([values.mean() for values in units])}
    names = {by: test.groups[int(worst(values))].name for by, values in centres.items()}
    told = "; ".join(
        f"{by}: " + ", ".join(f"{group.name} {value:.4g}" for group, value in zip(test.groups, values, strict=True))
        for by, values in centres.items()
    )
    given = {"verdict_before": f"worst: {names['medians']}", "verdict_after": f"worst: {names['means']}"}
    yield _row(test, known, changes[1], **{**nothing, **given, "detail": told})


def _families(test: _Test, known: _Known) -> Iterator[Row]:
    """Yield the same p adjusted otherwise: other methods in the same family, other families."""
    p, plan = float(test.row["p"]), known.plan
    several = len({other.cell.key[1] for other in known.tests if other.cell.key[0] == test.cell.key[0]}) > 1
    for method in ("bh", "holm", "by"):
        if method != plan.method:
            detail = f"in the family '{test.row['family']}'"
            q = known.q(test, p, method)
            yield _tested(test, known, f"family: {method}", p, q, detail)
    if several and plan.scope == "ruler":
        yield _tested(test, known, "family: joint", p, float(test.row["q_joint"]), "bh over all rulers")
    if test.row["family"] == PRIMARY:
        own = [t for t in known.tests if t.cell.key[:2] == test.cell.key[:2]]
        adjusted = adjust(known.p[[t.at for t in own]], plan.method)
        q = float(adjusted[own.index(test)])
        yield _tested(test, known, "family: all", p, q, f"{plan.method} over all tests of the model under the ruler")
    q = float(test.row["q_wy"])
    if np.isnan(q) and test.tested:
        yield _cannot(test, known, "family: westfall_young", "not permuted, see families")
    else:
        yield _tested(test, known, "family: westfall_young", p, q, "step-down over all tests of the model and ruler")


def _hd95(test: _Test, known: _Known) -> Iterator[Row]:
    """Yield the test by each other convention of HD95 that was scored; one row that says so where none was."""
    if test.cell.card.name != "hd95":
        return
    partners = [
        other
        for other in known.tests
        if other.cell.key[:3] == test.cell.key[:3]
        and other.division.grouping.name == test.division.grouping.name
        and other.cell.card.name.startswith("hd95")
        and other is not test
    ]
    for other in partners:
        p = float(other.row["p"])
        yield _tested(test, known, f"hd95: {other.cell.card.name}", p, known.q(test, p), other.cell.card.title)
    if not partners:
        yield _row(test, known, "hd95: convention", status="undefined", detail="one convention of HD95 is scored")
