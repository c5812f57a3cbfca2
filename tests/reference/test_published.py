"""The study's published figures, through the product's own functions and through its command line."""

import json

import numpy as np
import pandas as pd
import pytest

import segaudit as sa
from segaudit.audits.families import adjusted, family_rows
from segaudit.stats import disparity
from segaudit.tables import GROUPS, RULERS, TESTS, numbers

SCORES = ("dice_vb", "dice_disc", "dice_macro", "hd95_vb", "hd95_disc", "hd95_macro", "ndsc_vb", "ndsc_disc")


@pytest.fixture(scope="module")
def published(shared):
    return pd.read_csv(shared / "reference" / "published_tests.csv")


@pytest.fixture
def audited(shared, tmp_path, command):
    """Return a function that audits published score tables by the command line: its output and its run directory."""

    def run(*tables, options=()):
        words = [part for name, file in tables for part in ("--scores", f"{name}={shared / 'reference' / file}")]
        done = command("audit", *words, *options, "-o", tmp_path / "run")
        assert done.status == 0, done.err
        return done, tmp_path / "run"

    return run


def read(shared, ruler, file):
    return sa.read_score_table(shared / "reference" / file, ruler=ruler)


def row_of(table, **key):
    found = table
    for name, value in key.items():
        found = found[found[name] == value]
    assert len(found) == 1, key
    return found.iloc[0]


MEANS = [
    ("e2_gold_ruler.csv", "dice", "macro", 0.8969, 0.0579),
    ("e2_silver_ruler.csv", "dice", "macro", 0.9734, 0.0139),
    ("e1_mixed_reference.csv", "dice", "macro", 0.9473, None),
    ("e1_mixed_reference.csv", "dice", "vb", 0.9594, None),
    ("e1_mixed_reference.csv", "dice", "disc", 0.9353, None),
    ("e1_mixed_reference.csv", "ndsc", "macro", 0.9487, None),
    ("mgold_on_msilver.csv", "dice", "macro", 0.9704, 0.0143),
]


@pytest.mark.parametrize(("file", "metric", "label", "mean", "sd"), MEANS)
def test_published__means_of_the_score_tables(shared, file, metric, label, mean, sd):
    groups = sa.audit(read(shared, "ruler", file)).groups
    row = row_of(groups, metric=metric, label=label, grouping="")
    assert round(row["mean"], 4) == mean
    if sd is not None:
        assert round(row["sd"], 4) == sd


def test_published__median_hd95_and_cases_without_success(shared):
    mixed = sa.audit(read(shared, "mixed", "e1_mixed_reference.csv"))
    row = row_of(mixed.groups, metric="hd95", label="macro")
    assert round(row["median"], 4) == 0.3438
    assert row["n_cases"] == 228
    other = sa.audit(read(shared, "silver", "mgold_on_msilver.csv"))
    assert row_of(other.groups, metric="dice", label="macro")["n_success"] == 76  # no case under 0.8


def test_published__macro_is_the_mean_of_the_two_structures(shared):
    raw = pd.read_csv(shared / "reference" / "e2_gold_ruler.csv").set_index("case")
    wide = read(shared, "gold", "e2_gold_ruler.csv").wide("model", "gold").set_index("case")
    for metric in ("dice", "ndsc", "hd95"):
        by_hand = (raw[f"{metric}_vb"] + raw[f"{metric}_disc"]) / 2
        pd.testing.assert_series_equal(wide[f"{metric}_macro"], by_hand.sort_index(), check_names=False, rtol=1e-12)


def test_published__hd95_columns_are_lower_is_better_millimetres(shared):
    scores = read(shared, "gold", "e2_gold_ruler.csv")
    raw = pd.read_csv(shared / "reference" / "e2_gold_ruler.csv")
    audit = sa.audit(scores)
    for label in ("vb", "disc"):
        row = row_of(audit.groups, metric="hd95", label=label)
        assert row["n_success"] == (raw[f"hd95_{label}"] < 5).sum()  # strict, below
        assert row["threshold"] == 5
    assert set(scores.table.loc[scores.table["metric"] == "hd95", "unit"]) == {"mm"}
    assert set(scores.table.loc[scores.table["metric"] == "dice", "unit"]) == {"1"}


def test_published__the_ruler_comparison_without_demographics(audited):
    done, run = audited(("gold", "e2_gold_ruler.csv"), ("silver", "e2_silver_ruler.csv"))
    assert "No grouping was audited" in done.out
    assert "+0.0766" in done.out
    assert "1/4.17" in done.out
    table = pd.read_csv(run / "rulers.csv", dtype={"grouping": str}, keep_default_na=False)
    macro = table[(table["metric"] == "dice") & (table["label"] == "macro")].set_index("quantity")
    assert (macro["trusted"] == "gold").all()
    value = numbers(macro["value"])
    assert round(value["inflation"], 4) == 0.0766
    assert float(macro["low"]["inflation"]) > 0
    for name, ratio in (("sd_ratio", 4.17), ("iqr_ratio", 4.43), ("mad_ratio", 4.50)):
        assert round(1 / value[name], 2) == ratio, name
    assert "76 of 76" in macro["detail"]["inflation"]
    # the one case that drives the standard deviation is named, with the ratio that stands without it
    detail = macro["detail"]["sd_ratio"]
    assert round(1 / float(detail.split(" to ")[1].split(",")[0]), 2) == 2.42
    findings = pd.read_csv(run / "findings.csv")
    assert "NO_GROUPING" in set(findings["code"])


def test_published__csv_json_and_screen_hold_the_same_numbers(audited):
    done, run = audited(("gold", "e2_gold_ruler.csv"), ("silver", "e2_silver_ruler.csv"), options=["--json"])
    told, stored = json.loads(done.out), json.loads((run / "audit.json").read_text())
    assert told == stored
    assert told["data"]["n_cases"] == 76
    assert told["comparisons"] == [{"trusted": "gold", "other": "silver"}]
    for schema in (GROUPS, RULERS):
        csv = pd.read_csv(run / f"{schema.name}.csv", dtype=str, keep_default_na=False).to_dict("records")
        rows = told["tables"][schema.name]
        assert len(rows) == len(csv) > 0
        for row, line in zip(rows, csv, strict=True):
            for column in schema.columns:
                ours, theirs = row[column.name], line[column.name]
                if column.kind == "text" or isinstance(ours, str):
                    assert ours == theirs
                else:
                    assert (theirs == "") if ours is None else float(theirs) == ours


def test_published__without_the_driving_case(shared, tmp_path, command):
    for name in ("gold", "silver"):
        table = pd.read_csv(shared / "reference" / f"e2_{name}_ruler.csv")
        lowest = pd.read_csv(shared / "reference" / "e2_gold_ruler.csv").set_index("case")
        driver = lowest[["dice_vb", "dice_disc"]].mean(axis=1).idxmin()
        table[table["case"] != driver].to_csv(tmp_path / f"{name}.csv", index=False)
    words = [part for name in ("gold", "silver") for part in ("--scores", f"{name}={tmp_path / name}.csv")]
    done = command("audit", *words, "--json")
    rows = json.loads(done.out)["tables"]["rulers"]
    found = [r["value"] for r in rows if (r["metric"], r["label"], r["quantity"]) == ("dice", "macro", "sd_ratio")]
    assert [round(1 / value, 2) for value in found] == [2.42]


def test_published__the_order_of_files_and_rows_changes_nothing(shared, tmp_path):
    gold, silver = (pd.read_csv(shared / "reference" / f"e2_{name}_ruler.csv") for name in ("gold", "silver"))
    gold.sample(frac=1, random_state=1).to_csv(tmp_path / "gold.csv", index=False)
    silver.iloc[::-1].to_csv(tmp_path / "silver.csv", index=False)
    tables = []
    for folder in (shared / "reference", tmp_path):
        suffix = "" if folder == tmp_path else "_ruler"
        prefix = "" if folder == tmp_path else "e2_"
        parts = [sa.read_score_table(folder / f"{prefix}{name}{suffix}.csv", ruler=name) for name in ("gold", "silver")]
        tables.append(sa.compare_rulers(sa.audit(sa.merge(parts)), "gold", "silver").table)
    pd.testing.assert_frame_equal(*tables)


def planned(published, rulers):
    """Return the published tests of some rulers as the audit's table of tests."""
    rows = published[published["ruler"].isin(rulers)].reset_index(drop=True)
    parts = rows["score"].str.split("_", expand=True)
    blank = dict.fromkeys(TESTS.names(), np.nan)
    words = {c.name: "" for c in TESTS.columns if c.kind == "text"}
    return TESTS.frame(
        pd.DataFrame([{**blank, **words}] * len(rows)).assign(
            model="mix",
            ruler=rows["ruler"],
            metric=parts[0],
            label=parts[1],
            grouping=rows["grouping"],
            test=rows["test"],
            p=rows["p_raw"],
            status="ok",
        )
    )


def plan_over(published):
    age = {"age_3bin": "age", "age_median": "age"}
    return sa.Plan(
        groupings=[sa.by_level(name, attribute=age.get(name, name)) for name in published["grouping"].unique()],
        success={},
    )


COUNTS = [  # method or family, gold, silver
    ("all", "bh", 0, 11),
    ("all", "holm", 0, 4),
    ("all", "by", 0, 2),
    ("joint", "bh", 1, 8),
    ("all", "raw", 7, 15),
]


@pytest.mark.parametrize(("family", "method", "gold", "silver"), COUNTS)
def test_published__how_many_tests_each_correction_rejects(published, family, method, gold, silver):
    plan = plan_over(published)
    tests = adjusted(planned(published, ["gold", "silver"]), plan)
    rows = pd.DataFrame(family_rows(tests, plan, {})).set_index(["ruler", "family", "method"])
    assert rows.loc[("gold", family, method), "n_rejected"] == gold
    assert rows.loc[("silver", family, method), "n_rejected"] == silver
    assert rows.loc[("gold", family, method), "n_planned"] == (126 if family == "joint" else 63)
    if (family, method) == ("all", "bh"):
        assert set(rows.loc[("silver", "all", "bh"), "rejected_attributes"].split(", ")) == {"age_3bin", "age_median"}


@pytest.mark.parametrize("ruler", ["global", "gold", "silver", "mixed", "gold_trained", "silver_trained"])
def test_published__adjusted_p_values_of_every_ruler(published, ruler):
    tests = adjusted(planned(published, [ruler]), plan_over(published))
    own = published[published["ruler"] == ruler]
    np.testing.assert_allclose(tests["q"], own["p_fdr"], rtol=1e-8)
    assert (tests["q"] < 0.05).sum() == (own["p_fdr"] < 0.05).sum()


def test_published__a_joint_plan_adjusts_over_both_rulers(published):
    plan = sa.Plan(groupings=plan_over(published).groupings, success={}, scope="joint")
    tests = adjusted(planned(published, ["gold", "silver"]), plan)
    rejected = tests[tests["q"] < 0.05].groupby("ruler").size()
    assert rejected.to_dict() == {"gold": 1, "silver": 8}


def test_published__every_disparity_follows_from_its_rates(published):
    for row in published.itertuples():
        rates = np.array([row.worst_rate, row.best_rate])
        assert disparity.disparate_impact_ratio(rates) == pytest.approx(row.dir, abs=1e-9)
        assert disparity.demographic_parity_difference(rates) == pytest.approx(row.dpd, abs=1e-9)
        # a rate is a count over the cases of one of the groups
        sizes = np.array([int(n) for n in row.n.split("|")])
        for rate in rates:
            assert np.abs(rate * sizes - np.round(rate * sizes)).min() < 1e-6
