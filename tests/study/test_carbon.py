"""The carbon account: the study's own arithmetic, what is undefined, and codecarbon's file beside it."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.config.base import check, read_toml
from segaudit.config.carbon import CarbonEntry
from segaudit.errors import AuditError
from segaudit.study.carbon import CARBON, account, measured, measuring


def jobs_of(*rows):
    return pd.DataFrame(rows, columns=["step", "device", "seconds"])


def hours_of(a100, l40s):
    return jobs_of(("train/a", "A100", a100 * 3600), ("train/b", "L40S", l40s * 3600))


@pytest.mark.parametrize(
    ("a100", "l40s", "hours", "kwh", "low", "high", "why"),
    [
        (486.3, 618.9, 1105, 534, 52.9, 73.7, "thirty folds, three regimes"),
        (148.8, 618.9, 768, 401, 39.7, 55.3, "the twenty folds of two regimes: all L40S hours, 148.8 A100 hours"),
        (337.5, 0.0, 338, 133, 13.2, 18.4, "the ten folds left: 337.5 x 0.25 x 1.58 = 133.3125"),
    ],
)
def test_carbon__reproduces_the_published_account(a100, l40s, hours, kwh, low, high, why):
    total = account(hours_of(a100, l40s)).total
    assert round(total["hours"]) == hours, why
    assert round(total["energy_kwh"]) == kwh, why
    assert (round(total["co2e_kg_low"], 1), round(total["co2e_kg_high"], 1)) == (low, high), why


def test_carbon__the_hours_of_the_twenty_folds_follow_from_what_is_printed():
    # 768 h, 401 kWh, 39.7 and 55.3 kg, all rounded: which hours of the two boards give all four?
    l40s, both = np.meshgrid(np.arange(0, 618.95, 0.1), np.arange(767.5, 768.55, 0.1))
    a100 = both - l40s
    kwh = (a100 * 0.25 + l40s * 0.35) * 1.58
    fits = a100 <= 486.3
    for value, half in ((kwh - 401, 0.5), (kwh * 0.099 - 39.7, 0.05), (kwh * 0.138 - 55.3, 0.05)):
        fits &= np.abs(value) <= half
    assert l40s[fits].min() > 613.0  # under six hours less than 618.9: less than a fold, so all L40S folds are in
    at_all = a100[fits & (l40s > 618.85)]
    assert (at_all.min(), at_all.max()) == pytest.approx((148.6, 148.9))
    assert 29 <= 148.8 / 5 <= 38  # five A100 folds
    assert 40 <= 618.9 / 15 <= 45  # and fifteen L40S folds make the twenty, at the hours a fold that are told
    assert 29 <= (486.3 - 148.8) / 10 <= 38  # as do the other ten


def test_carbon__each_number_of_a_row_is_the_hand_computed_one():
    model = CarbonEntry(watts={"A100": 400}, pue=1.5, pue_range=(1.2, 2.0), grid_g_per_kwh=(50, 100))
    row = account(jobs_of(("train/mixed/2d/0", "a100", 9000)).assign(units=2), model).table.iloc[0]
    assert row[["scope", "step", "device", "status"]].tolist() == ["job", "train/mixed/2d/0", "a100", "ok"]
    assert row[["hours", "watts", "pue"]].tolist() == [5.0, 400.0, 1.5]  # 2.5 h on two boards
    assert row[["energy_kwh", "energy_kwh_low", "energy_kwh_high"]].tolist() == pytest.approx([3.0, 2.4, 4.0])
    assert row[["co2e_kg_low", "co2e_kg_high"]].tolist() == pytest.approx([0.15, 0.3])
    assert row[["co2e_kg_lowest", "co2e_kg_highest"]].tolist() == pytest.approx([0.12, 0.4])


def test_carbon__sums_stand_by_kind_of_step_by_device_and_in_all():
    table = account(
        jobs_of(("train/a/2d/0", "A100", 3600), ("train/a/2d/1", "L40S", 7200), ("predict/a/2d", "A100", 1800))
    ).table
    sums = table[table["scope"] != "job"].set_index(["scope", "step", "device"])["hours"]
    assert sums.to_dict() == {
        ("kind", "train", ""): 3.0,
        ("kind", "predict", ""): 0.5,
        ("device", "", "A100"): 1.5,
        ("device", "", "L40S"): 2.0,
        ("total", "", ""): 3.5,
    }


def test_carbon__an_interrupted_attempt_counts():
    table = account(jobs_of(("train/a/2d/0", "A100", 3600), ("train/a/2d/0", "A100", 1800))).table
    assert table.loc[table["scope"] == "job", "attempt"].tolist() == [1, 2]
    assert table.loc[table["scope"] == "total", "hours"].item() == 1.5


def test_carbon__cpu_counts_cores_at_declared_watts():
    told = account(jobs_of(("prepare/a", "cpu", 7200)).assign(units=4), CarbonEntry(watts={"cpu": 10}))
    assert told.total["hours"] == 8.0
    assert told.total["energy_kwh"] == pytest.approx(8 * 0.010 * 1.58)
    assert not told.findings


def test_carbon__a_device_without_declared_power_is_undefined_and_told():
    told = account(
        jobs_of(
            ("train/a/2d/0", "A100", 3600),
            ("train/a/2d/1", "NVIDIA A100-SXM4-80GB", 3600),
            ("train/a/2d/2", "NVIDIA A100-SXM4-80GB", 3600),
            ("prepare/a", "cpu", 60),
        )
    )
    board = told.table[told.table["device"] == "NVIDIA A100-SXM4-80GB"]
    assert set(board["status"]) == {"undefined"}
    assert board[["watts", "energy_kwh", "co2e_kg_low", "co2e_kg_highest"]].isna().all(axis=None)
    kinds = told.table[told.table["scope"] == "kind"].set_index("step")["status"].to_dict()
    assert kinds == {"train": "partial", "prepare": "undefined"}
    assert told.total["status"] == "partial"
    assert (told.total["n_jobs"], told.total["n_unknown"]) == (4, 3)
    assert told.total["energy_kwh"] == pytest.approx(0.395)  # the one job that is known
    assert str(told).endswith("(3 jobs left out)")
    assert [(f.code, f.level) for f in told.findings] == [("CARBON_POWER_UNKNOWN", "warning")] * 2
    assert "NVIDIA A100-SXM4-80GB" in told.findings[0].message
    assert "2 jobs of 2 h" in told.findings[0].message
    assert "one core" in told.findings[1].fix


def test_carbon__no_jobs_is_no_energy_rather_than_zero():
    told = account(jobs_of())
    assert told.table["scope"].tolist() == ["total"]
    assert told.total["status"] == "undefined"
    assert math.isnan(told.total["energy_kwh"])
    assert str(told) == "0 jobs, 0.0 h: energy undefined"


def test_carbon__every_bad_row_is_named_at_once():
    jobs = jobs_of(
        ("a", "A100", -1), ("b", "A100", "soon"), ("c", "A100", np.inf), ("d", "A100", np.nan), ("e", "A100", 5)
    )
    jobs["units"] = [1, 1, 1, 1.5, 0]
    with pytest.raises(AuditError) as caught:
        account(jobs)
    places = sorted(finding.where for finding in caught.value.findings)
    assert places == [
        "jobs, row 1, seconds",
        "jobs, row 2, seconds",
        "jobs, row 3, seconds",
        "jobs, row 4, seconds",
        "jobs, row 4, units",
        "jobs, row 5, units",
    ]
    assert {finding.code for finding in caught.value.findings} == {"CARBON_VALUE"}


def test_carbon__missing_columns_are_named_at_once():
    with pytest.raises(AuditError) as caught:
        account(pd.DataFrame({"step": ["a"], "second": [1]}))
    assert [(f.code, f.message) for f in caught.value.findings] == [
        ("CARBON_COLUMN_MISSING", "there is no column 'device'."),
        ("CARBON_COLUMN_MISSING", "there is no column 'seconds'."),
    ]
    assert "did you mean 'second'?" in caught.value.findings[1].fix


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["A100", "L40S", "H100"]), st.integers(0, 10**6)),
        min_size=1,
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_carbon__sums_add_up_and_do_not_depend_on_the_order_of_jobs(rows, random):
    told = account(jobs_of(*rows))
    shuffled = list(rows)
    random.shuffle(shuffled)
    other = account(jobs_of(*shuffled))
    table = told.table
    for column in ("hours", "energy_kwh", "energy_kwh_low", "energy_kwh_high", "co2e_kg_low", "co2e_kg_highest"):
        by_scope = [table.loc[table["scope"] == scope, column].sum() for scope in ("job", "kind", "device", "total")]
        assert by_scope == pytest.approx([by_scope[0]] * 4, abs=1e-12)
        assert other.total[column] == pytest.approx(told.total[column], nan_ok=True)
    assert [f.code for f in told.findings] == [f.code for f in other.findings]
    known = table.dropna(subset="energy_kwh")
    ends = ["co2e_kg_lowest", "co2e_kg_low", "co2e_kg_high", "co2e_kg_highest"]
    assert (known[ends].diff(axis=1).iloc[:, 1:] >= -1e-12).all(axis=None)


# the [carbon] table


def test_carbon_entry__defaults_are_the_study_s():
    entry = CarbonEntry()
    assert entry.watts == {"A100": 250.0, "L40S": 350.0}
    assert (entry.pue, entry.pues, entry.grid_g_per_kwh) == (1.58, (1.55, 1.67), (99.0, 138.0))


def test_carbon_entry__a_table_extends_the_boards(tmp_path):
    path = tmp_path / "carbon.toml"
    path.write_text('watts = { "RTX 4090" = 450, a100 = 400 }\npue = 1.2\ngrid_g_per_kwh = [20, 60.5]\n')
    entry = read_toml(path, CarbonEntry)
    assert entry.watts == {"L40S": 350.0, "RTX 4090": 450.0, "a100": 400.0}
    assert entry.pues == (1.2, 1.2)  # the study's range is that of its own PUE
    assert entry.grid_g_per_kwh == (20.0, 60.5)
    assert CarbonEntry(pue=1.58).pues == (1.55, 1.67)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"pue": 0.9}, "a PUE is 1 at the least"),
        ({"pue": 1.7, "pue_range": [1.5, 1.6]}, "the range leaves the PUE out"),
        ({"pue_range": [0.5, 1.7]}, "the range begins below 1"),
        ({"pue_range": [1.5, math.inf]}, "the range has no end"),
        ({"pue_range": [1.5]}, "a range has two ends"),
        ({"grid_g_per_kwh": [138, 99]}, "lowest first"),
        ({"grid_g_per_kwh": [0, 99]}, "a grid of nothing is a slip"),
        ({"watts": {"A100": 0}}, "a board draws power"),
        ({"watts": {"": 10}}, "a device has a name"),
        ({"watts": {"A100": 250, "a100": 400}}, "one board twice"),
        ({"watt": {}}, "an unknown key"),
    ],
)
def test_carbon_entry__what_cannot_be_is_refused(table, why):
    with pytest.raises(AuditError) as caught:
        check(table, CarbonEntry, "study.toml")
    assert caught.value.findings[0].code in {"TOML_VALUE", "TOML_UNKNOWN_KEY"}, why


# codecarbon

# two rows as codecarbon 3.3.2 writes them, without most of the columns that are not read
EMISSIONS = """\
project_name,duration,emissions,cpu_energy,energy_consumed,country_iso_code,cpu_model,gpu_count,gpu_model,pue
train/mixed/2d/0,4.01451497600101,1.8739598606526867e-05,1.4e-05,4.919175379059421e-05,DEU,Intel(R) Xeon(R),0,,1.58
predict/mixed/2d,3600,0.19,0.1,0.5,DEU,Intel(R) Xeon(R),1,1 x NVIDIA L40S,1.58
"""


def test_measured__codecarbon_s_file_stands_beside_the_account(tmp_path):
    (tmp_path / "emissions.csv").write_text(EMISSIONS)
    found = measured(tmp_path)
    jobs = found[found["scope"] == "job"]
    assert jobs["step"].tolist() == ["train/mixed/2d/0", "predict/mixed/2d"]
    assert jobs["device"].tolist() == ["Intel(R) Xeon(R)", "1 x NVIDIA L40S"]
    assert jobs["energy_kwh"].tolist() == [4.919175379059421e-05, 0.5]
    assert jobs["co2e_kg_lowest"].tolist() == jobs["co2e_kg_highest"].tolist() == [1.8739598606526867e-05, 0.19]
    assert jobs["hours"].tolist() == pytest.approx([4.01451497600101 / 3600, 1.0])
    assert set(found["source"]) == {"codecarbon"}
    assert jobs["detail"].tolist() == ["grid of DEU"] * 2
    declared = account(jobs_of(("train/mixed/2d/0", "A100", 4.0), ("predict/mixed/2d", "L40S", 3600.0))).table
    both = CARBON.frame(pd.concat([declared, found]))  # one table: no two rows share a key
    assert both.loc[both["scope"] == "total", "source"].tolist() == ["declared", "codecarbon"]


def test_measured__rows_that_were_not_finished_are_named(tmp_path):
    (tmp_path / "emissions.csv").write_text(EMISSIONS.replace("0.5,DEU", ",DEU").replace(",3600,", ",nan,"))
    with pytest.raises(AuditError) as caught:
        measured(tmp_path)
    assert {finding.code for finding in caught.value.findings} == {"CARBON_VALUE"}
    assert sorted(finding.where.split(", ", 1)[1] for finding in caught.value.findings) == [
        "row 2, duration",
        "row 2, energy_consumed",
    ]


def test_measured__another_file_is_refused(tmp_path):
    (tmp_path / "emissions.csv").write_text("project_name,duration\na,1\n")
    with pytest.raises(AuditError) as caught:
        measured(tmp_path)
    assert [finding.code for finding in caught.value.findings] == ["CARBON_COLUMN_MISSING"] * 3


class _Tracker:
    """Stands for codecarbon's tracker: records what it is told, and refuses an absent folder."""

    told: ClassVar[list[object]] = []

    def __init__(self, **options):
        assert Path(options["output_dir"]).is_dir()
        self.told.append(options)

    def start(self):
        self.told.append("start")

    def stop(self):
        self.told.append("stop")


def test_measuring__stops_when_the_job_fails(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", SimpleNamespace(OfflineEmissionsTracker=_Tracker))
    _Tracker.told.clear()
    with pytest.raises(RuntimeError, match="lost"), measuring(tmp_path / "new", "train/a/2d/0", "DEU"):
        raise RuntimeError("lost")
    options, *rest = _Tracker.told
    assert rest == ["start", "stop"]
    assert (options["project_name"], options["country_iso_code"], options["pue"]) == ("train/a/2d/0", "DEU", 1.58)


def test_measuring__says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(AuditError) as caught, measuring(tmp_path, "train/a/2d/0", "DEU"):
        pass
    assert caught.value.findings[0].code == "CARBON_EXTRA_MISSING"
    assert "pip install codecarbon" in caught.value.findings[0].fix
