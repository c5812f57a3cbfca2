"""Two models under one ruler."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segaudit.audits import Plan, audit
from segaudit.cli import main
from segaudit.cohorts import Cohort
from segaudit.errors import AuditError
from segaudit.groupings import parse_all
from segaudit.lines import audit_scores
from segaudit.rulers import compare_models, compare_rulers
from segaudit.scores import Scores, read_score_table
from segaudit.store import RunDirectory
from segaudit.tables import SCORES

SEX = np.array(["F", "M"] * 40)


def _scores(columns):
    """Return scores of (model, ruler, metric, label) to one value a case."""
    parts = [
        pd.DataFrame(
            {
                "case": [f"c{i:03d}" for i in range(len(values))],
                "patient": [f"p{i:03d}" for i in range(len(values))],
                "model": model,
                "ruler": ruler,
                "label": label,
                "metric": metric,
                "value": values,
                "unit": "mm" if metric == "hd95" else "1",
                "status": "ok",
            }
        )
        for (model, ruler, metric, label), values in columns.items()
    ]
    return Scores(SCORES.frame(pd.concat(parts, ignore_index=True)))


def _people(sex=SEX):
    return pd.DataFrame(
        {"case": [f"c{i:03d}" for i in range(80)], "patient": [f"p{i:03d}" for i in range(80)], "sex": sex}
    )


def _plan(*by, **changes):
    return Plan(groupings=parse_all(by), **{"resamples": 199, "seed": 1, **changes})


def _audit(columns, *by, **changes):
    return audit(_scores(columns), _people(), _plan(*by, **changes))


def _base(seed=0):
    return 0.85 + 0.04 * np.random.default_rng(seed).standard_normal(80)


def test_compare_models__finds_the_figures_that_two_rulers_with_these_scores_give():
    x = _base()
    y = 0.9 + 0.4 * (x - 0.85) - 0.02 * (SEX == "M") + 0.01 * np.random.default_rng(1).standard_normal(80)
    models = _audit({("gold", "expert", "dice", "vb"): x, ("silver", "expert", "dice", "vb"): y}, "sex")
    rulers = _audit({("mix", "expert", "dice", "vb"): x, ("mix", "machine", "dice", "vb"): y}, "sex")
    ours = compare_models(models, "gold", "silver", "expert")
    theirs = compare_rulers(rulers, "expert", "machine")
    names = {
        "level_change": "inflation",
        "level_shift": "inflation_shift",
        "walsh_ratio": "walsh_ratio",
        "walsh_ratio_log": "walsh_ratio_log",
        "noise_change": "collapse",
        "differential_change": "differential_inflation",
        "delta_h": "delta_h",
        "gap_ratio": "gap_ratio",
        "snr_ratio": "snr_ratio",
    }
    for own, other in names.items():
        for grouping in ("", "sex"):
            rows = ours.table[(ours.table["quantity"] == own) & (ours.table["grouping"] == grouping)]
            same = theirs.table[(theirs.table["quantity"] == other) & (theirs.table["grouping"] == grouping)]
            assert len(rows) == len(same)
            pd.testing.assert_series_equal(rows["value"], same["value"], check_index=False)
            assert rows["baseline_value"].tolist() == pytest.approx(same["trusted_value"].tolist(), nan_ok=True)
    assert not {"independence", "shared_error_bound", "verdict_class", "inflation"} & set(ours.table["quantity"])


@pytest.mark.parametrize(
    ("extra", "word", "why"),
    [
        (-0.03, "gap amplified", "men lose three points more with the other model"),
        (+0.03, "gap reduced", "men, the worse group, gain three points"),
        (0.0, "no change shown", "the gain is the same in both groups"),
    ],
)
@pytest.mark.parametrize("metric", ["dice", "hd95"])
def test_amplification__of_a_planted_change(extra, word, why, metric):
    scale, sign = (1.0, 1.0) if metric == "dice" else (40.0, -1.0)
    men = (SEX == "M").astype(float)
    x = _base() - 0.06 * men
    y = x + 0.05 + extra * men + 0.01 * np.random.default_rng(2).standard_normal(80)
    columns = {("gold", "expert", metric, "vb"): x, ("silver", "expert", metric, "vb"): y}
    turned = {key: 50.0 * (sign < 0) + sign * scale * values for key, values in columns.items()}
    found = compare_models(_audit(turned, "sex"), "gold", "silver", "expert")
    row = found.table[found.table["quantity"] == "amplification"].iloc[0]
    assert row["value"] == word, why
    d = turned["silver", "expert", metric, "vb"] - turned["gold", "expert", metric, "vb"]
    expected = stats.mannwhitneyu(d[SEX == "F"], d[SEX == "M"], method="asymptotic").pvalue
    assert row["p"] == pytest.approx(expected, rel=1e-6)
    assert (row["baseline_value"], row["other_value"]) == ("gap found", "gap found")


def test_amplification__is_adjusted_over_everything_compared():
    men = (SEX == "M").astype(float)
    labels = [f"l{i}" for i in range(12)]
    columns = {}
    for i, label in enumerate(labels):
        x = _base(i) - 0.03 * men
        noise = 0.02 * np.random.default_rng(100 + i).standard_normal(80)
        columns["gold", "expert", "dice", label] = x
        columns["silver", "expert", "dice", label] = x + noise - 0.01 * men * (i == 0)
    found = compare_models(_audit(columns, "sex"), "gold", "silver", "expert").table
    rows = found[found["quantity"] == "amplification"]
    assert rows["q"].tolist() == pytest.approx(stats.false_discovery_control(rows["p"]).tolist())
    assert ((rows["value"] != "no change shown") == (rows["q"] < 0.05)).all()


def test_amplification__says_no_change_where_only_the_verdict_differs():
    # the other model has the same gap with a quarter of the noise: a verdict may flip, the gap does not
    men = (SEX == "M").astype(float)
    noise = np.repeat(stats.norm.ppf((np.arange(40) + 0.5) / 40), 2)  # the same in both groups
    columns = {
        ("gold", "expert", "dice", "vb"): 0.85 - 0.01 * men + 0.04 * noise,
        ("silver", "expert", "dice", "vb"): 0.88 - 0.01 * men + 0.008 * noise,
    }
    row = (
        compare_models(_audit(columns, "sex"), "gold", "silver", "expert")
        .table.set_index("quantity")
        .loc["amplification"]
    )
    assert (row["baseline_value"], row["other_value"], row["value"]) == ("no gap shown", "gap found", "no change shown")


def test_amplification__of_groups_too_small_is_a_row_with_its_status():
    x = _base()
    people = _people(["F"] * 75 + ["M"] * 5)
    scores = _scores({("gold", "expert", "dice", "vb"): x, ("silver", "expert", "dice", "vb"): x + 0.01})
    found = compare_models(audit(scores, people, _plan("sex")), "gold", "silver", "expert")
    row = found.table.set_index("quantity").loc["amplification"]
    assert pd.isna(row["value"])
    assert row["status"] == "too_few_patients"
    assert "nothing is said about gaps" in str(found)


def test_compare_models__tells_every_unknown_name_at_once():
    found = _audit({("gold", "expert", "dice", "vb"): _base()})
    with pytest.raises(AuditError) as error:
        compare_models(found, "golde", "silver", "experts")
    assert [f.code for f in error.value.findings] == ["UNKNOWN_MODEL", "UNKNOWN_MODEL", "UNKNOWN_RULER"]
    assert "did you mean 'gold'?" in error.value.findings[0].fix
    with pytest.raises(AuditError, match="MODEL_TWICE"):
        compare_models(found, "gold", "gold", "expert")


def test_compare_models__without_a_shared_case():
    x = _base()
    found = _audit({("gold", "expert", "dice", "vb"): x, ("silver", "machine", "dice", "vb"): x})
    with pytest.raises(AuditError, match="MODELS_NO_CASE"):
        compare_models(found, "gold", "silver", "expert")


def test_compare_models__negative_control_on_published_scores(shared):
    tables = {"mix": "e2_gold_ruler.csv", "silver": "msilver_on_gold.csv"}
    parts = [read_score_table(shared / "reference" / f, ruler="gold", model=m) for m, f in tables.items()]
    from segaudit.scores import merge

    found = compare_models(audit(merge(parts), None, _plan()), "mix", "silver", "gold")
    row = found.table[(found.table["quantity"] == "walsh_ratio") & (found.table["metric"] == "dice")]
    row = row.set_index("label").loc["macro"]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.996, 0.965, 1.024), abs=5e-4)
    assert found.value("noise_change", "dice") == "stable"


def test_models_command__writes_its_table_beside_earlier_ones(tmp_path, capsys, monkeypatch):
    x = _base()
    columns = {(m, "expert", "dice", "vb"): x + shift for m, shift in (("gold", 0), ("silver", 0.01), ("mix", 0.02))}
    scores = _scores(columns)
    audit_scores(scores, Cohort("small", _people()), _plan("sex"), out=tmp_path)

    def command(*words):
        monkeypatch.setattr("sys.argv", ["segaudit", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    options = ["--baseline", "gold", "--ruler", "expert"]
    code, told = command("models", str(tmp_path), "--other", "silver", *options)
    assert code in (0, None)
    assert "no change shown: 1 of 1" in told.out
    code, told = command("models", str(tmp_path), "--other", "mix", *options, "--json")
    rows = json.loads(told.out)
    assert {row["other"] for row in rows} == {"mix"}
    table = pd.read_csv(tmp_path / "models.csv")
    assert set(table["other"]) == {"silver", "mix"}
    assert RunDirectory(tmp_path).verify() == []
    code, told = command("models", str(tmp_path), "--other", "sliver", *options)
    assert code == 2
    assert "did you mean 'silver'?" in told.err
