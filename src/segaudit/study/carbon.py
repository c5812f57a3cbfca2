"""The carbon account: hours measured by each job x declared power x PUE, and what the grid emits for that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.config.carbon import CarbonEntry
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.sheets import read_sheet
from segaudit.tables import Schema, count, number, text

STUDY = CarbonEntry()
MEASURED_FILE = "emissions.csv"
_HOUR_S = 3600.0
_G_PER_KG = 1000.0
_SUMMED = (
    "hours",
    "energy_kwh",
    "energy_kwh_low",
    "energy_kwh_high",
    "co2e_kg_low",
    "co2e_kg_high",
    "co2e_kg_lowest",
    "co2e_kg_highest",
)

CARBON = Schema(
    "carbon",
    ("source", "scope", "step", "device", "attempt"),
    (
        text("source", "declared (hours x declared power), or codecarbon (its own measurement)"),
        text("scope", "job, kind (all jobs of a kind of step), device (all jobs on a device) or total"),
        text("step", "step of the job, or kind of step"),
        text("device", "what the job ran on, as its log says"),
        count("attempt", "number of the job among those of its step and device, from 1: interrupted ones count, too"),
        count("n_jobs", "jobs of the row"),
        count("n_unknown", "of these, jobs without a known energy: in the hours, but in no other sum"),
        count("units", "boards in use, or cores of a cpu; 1 where the seconds are CPU time"),
        number("hours", "hours measured x units: board hours, or core hours"),
        number("watts", "declared power of one unit"),
        number("pue", "power usage effectiveness"),
        number("energy_kwh", "hours x watts / 1000 x pue"),
        number("energy_kwh_low", "the same at the lowest PUE"),
        number("energy_kwh_high", "the same at the highest PUE"),
        number("co2e_kg_low", "energy_kwh at the lowest grid intensity"),
        number("co2e_kg_high", "energy_kwh at the highest grid intensity"),
        number("co2e_kg_lowest", "energy_kwh_low at the lowest grid intensity"),
        number("co2e_kg_highest", "energy_kwh_high at the highest grid intensity"),
        text("status", "ok; partial where some jobs of a sum have no known energy; undefined where none has"),
        text("detail", "what stands behind the row, in words"),
    ),
)


@dataclass(frozen=True)
class Account:
    """What jobs used and emitted.

    Attributes
    ----------
    table : DataFrame
        Of schema CARBON: a row a job, a kind of step and a device, and one for all.
    findings : tuple of Finding
        CARBON_POWER_UNKNOWN, a warning for each device without a declared power.
    """

    table: pd.DataFrame
    findings: tuple[Finding, ...] = ()

    @property
    def total(self) -> pd.Series:
        """Return the row of all jobs."""
        return self.table[self.table["scope"] == "total"].iloc[0]

    def __str__(self) -> str:
        row = self.total
        head = f"{_jobs(row['n_jobs'])}, {row['hours']:,.1f} h"
        if row["status"] == "undefined":
            return f"{head}: energy undefined"
        emitted = f"{row['co2e_kg_low']:,.3g} to {row['co2e_kg_high']:,.3g} kg CO2e"
        lost = f" ({_jobs(row['n_unknown'])} left out)" if row["status"] == "partial" else ""
        return f"{head}: {row['energy_kwh']:,.4g} kWh, {emitted}{lost}"


def account(jobs: pd.DataFrame, model: CarbonEntry = STUDY) -> Account:
    """Return energy and CO2e of jobs, each and summed by kind of step, by device, and over all.

    Parameters
    ----------
    jobs : DataFrame
        step (text; its kind is what stands before the first '/' or ':'), device (text, as the job's log says), seconds
        (measured by the job) and, if wanted, units: boards in use, or for `cpu` the cores (1 where the seconds are CPU
        time). A step may have several rows, one an attempt.
    model : CarbonEntry
        The declared power of each device, PUE and grid intensity, from the [carbon] table of study.toml.

    Raises
    ------
    AuditError
        CARBON_COLUMN_MISSING; CARBON_VALUE for each row whose seconds or units are no number, or below their least.

    Notes
    -----
    energy = hours x units x watts / 1000 x PUE; CO2e = energy x grid intensity. A board's name must be the declared
    one but for capitals: boards that share a part of their names differ in power. It is an account of declared values,
    no measurement: it holds neither hosts nor storage, but what the PUE adds.

    Examples
    --------
    >>> jobs = pd.DataFrame({"step": ["train/mixed/2d/0"], "device": ["A100"], "seconds": [33.5 * 3600]})
    >>> print(account(jobs))
    1 job, 33.5 h: 13.23 kWh, 1.31 to 1.83 kg CO2e
    """
    _check(jobs)
    watts = {name.casefold(): value for name, value in model.watts.items()}
    rows = []
    for step, device, seconds, units in _entries(jobs):
        power = watts.get(device.casefold(), math.nan)
        hours = seconds / _HOUR_S * units
        rows.append(_job(step, device, hours) | {"units": units, "watts": power} | _used(hours, power, model))
    return Account(_summed("declared", rows), tuple(_unknown(rows, model)))


def measured(folder: Path) -> pd.DataFrame:
    """Return what codecarbon measured, in the rows of an account (schema CARBON, source codecarbon).

    Parameters
    ----------
    folder : Path
        Holds codecarbon's emissions.csv; each row is a job, its `project_name` the step.

    Raises
    ------
    AuditError
        CARBON_COLUMN_MISSING, CARBON_VALUE, or what reading a table raises.

    Notes
    -----
    codecarbon's energy holds CPU, memory and GPUs and its own PUE (column `pue`), and its emissions come from its own
    intensity of the country, so low and high are one number.
    """
    sheet = read_sheet(folder / MEASURED_FILE, delimiter=",")
    needed = ("project_name", "duration", "energy_consumed", "emissions", "pue")
    _need(sheet.table, needed, str(sheet.path))
    numbers = {name: pd.to_numeric(sheet.table[name], errors="coerce") for name in needed[1:]}
    raise_errors(
        Finding("CARBON_VALUE", f"{name} is '{sheet.table[name].iloc[i]}'.", f"{sheet.path}, row {i + 1}, {name}",
                "remove the row: codecarbon did not finish it.")
        for name, values in numbers.items() for i, value in enumerate(values) if not 0 <= value < math.inf
    )  # fmt: skip
    countries = sheet.table.get("country_iso_code", pd.Series("", sheet.table.index))
    rows = []
    for i, step in enumerate(sheet.table["project_name"]):
        energy, kg = float(numbers["energy_consumed"].iloc[i]), float(numbers["emissions"].iloc[i])
        rows.append(
            _job(str(step), _host(sheet.table, i), float(numbers["duration"].iloc[i]) / _HOUR_S)
            | {"pue": float(numbers["pue"].iloc[i]), "detail": f"grid of {countries.iloc[i] or 'an unnamed country'}"}
            | dict.fromkeys(_SUMMED[1:4], energy)
            | dict.fromkeys(_SUMMED[4:], kg)
        )
    return _summed("codecarbon", rows)


@contextmanager
def measuring(folder: Path, step: str, country: str, model: CarbonEntry = STUDY) -> Iterator[None]:
    """Measure what happens inside by codecarbon, offline; a row is added to emissions.csv of the folder.

    Parameters
    ----------
    folder : Path
        Made when it is absent.
    step : str
    country : str
        Three letters (ISO 3166), for the intensity of its grid: DEU.
    model : CarbonEntry
        Whose PUE codecarbon applies.

    Raises
    ------
    AuditError
        CARBON_EXTRA_MISSING when codecarbon is not installed.

    Notes
    -----
    It measures the whole machine: jobs side by side are each charged with all of it. Where codecarbon itself fails, it
    logs that, the job goes on, and no row is added.
    """
    try:
        codecarbon = import_module("codecarbon")
    except ImportError:
        fact = "the package 'codecarbon', which measures energy, is not installed."
        raise AuditError(Finding("CARBON_EXTRA_MISSING", fact, step, "pip install codecarbon")) from None
    folder.mkdir(parents=True, exist_ok=True)  # into an absent folder codecarbon writes nothing, and only logs that
    tracker = codecarbon.OfflineEmissionsTracker(
        project_name=step,
        output_dir=str(folder),
        output_file=MEASURED_FILE,
        country_iso_code=country,
        pue=model.pue,
        log_level="error",
        allow_multiple_runs=True,
    )
    tracker.start()
    try:
        yield
    finally:
        tracker.stop()


def _jobs(n: int) -> str:
    return f"{n} job" if n == 1 else f"{n} jobs"


def _check(jobs: pd.DataFrame) -> None:
    _need(jobs, ("step", "device", "seconds"), "jobs")
    faults = []
    for name, least in (("seconds", 0), ("units", 1)):
        if name not in jobs:
            continue
        values = pd.to_numeric(jobs[name], errors="coerce")
        wrong = [not least <= v < math.inf or (name == "units" and v != int(v)) for v in values]
        for i in (i for i, is_wrong in enumerate(wrong) if is_wrong):
            kind = "whole number" if name == "units" else "number"
            fact = f"{name} of '{jobs['step'].iloc[i]}' is {jobs[name].iloc[i]}, no {kind} from {least}."
            faults.append(Finding("CARBON_VALUE", fact, f"jobs, row {i + 1}, {name}", "give what the job's log says."))
    raise_errors(faults)


def _need(table: pd.DataFrame, names: Sequence[str], where: str) -> None:
    raise_errors(
        Finding("CARBON_COLUMN_MISSING", f"there is no column '{name}'.", where, did_you_mean(name, map(str, table)))
        for name in names
        if name not in table
    )


def _entries(jobs: pd.DataFrame) -> Iterator[tuple[str, str, float, int]]:
    units = jobs["units"] if "units" in jobs else [1] * len(jobs)
    for step, device, seconds, n in zip(jobs["step"], jobs["device"], jobs["seconds"], units, strict=True):
        yield str(step), "" if pd.isna(device) else str(device).strip(), float(seconds), int(n)


def _job(step: str, device: str, hours: float) -> dict[str, Any]:
    return {"scope": "job", "step": step, "device": device, "n_jobs": 1, "hours": hours}


def _used(hours: float, watts: float, model: CarbonEntry) -> dict[str, float]:
    """Return energy and CO2e of hours of one unit; NaN where the power is."""
    at_it = hours * watts / 1000
    (least, most), (clean, dirty) = model.pues, (g / _G_PER_KG for g in model.grid_g_per_kwh)
    return {
        "pue": model.pue,
        "energy_kwh": at_it * model.pue,
        "energy_kwh_low": at_it * least,
        "energy_kwh_high": at_it * most,
        "co2e_kg_low": at_it * model.pue * clean,
        "co2e_kg_high": at_it * model.pue * dirty,
        "co2e_kg_lowest": at_it * least * clean,
        "co2e_kg_highest": at_it * most * dirty,
    }


def _unknown(rows: Sequence[Mapping[str, Any]], model: CarbonEntry) -> Iterator[Finding]:
    for device in sorted({row["device"] for row in rows if math.isnan(row["watts"])}):
        hours = [row["hours"] for row in rows if row["device"] == device]
        what = "one core" if device.casefold() == "cpu" else "one board"
        fact = f"the power of '{device}' is not declared: {_jobs(len(hours))} of {sum(hours):.4g} h without energy."
        fix = (
            f'declare the watts of {what}, as [carbon] watts = {{ "{device}" = ... }}; known: {", ".join(model.watts)}.'
        )
        yield Finding("CARBON_POWER_UNKNOWN", fact, "study.toml, carbon.watts", fix, "warning")


def _summed(source: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return jobs and their sums as one table."""
    names = [name for name in CARBON.names() if name not in {"source", "attempt", "n_unknown", "status"}]
    jobs = pd.DataFrame(rows, columns=names)
    jobs["attempt"] = jobs.groupby(["step", "device"]).cumcount() + 1
    jobs["n_unknown"] = jobs["energy_kwh"].isna().astype(int)
    kinds = jobs["step"].str.split("[/:]", regex=True).str[0]
    sums = [_sum("kind", kind, "", part) for kind, part in jobs.groupby(kinds, sort=False)]
    sums += [_sum("device", "", device, part) for device, part in jobs.groupby("device", sort=False)]
    table = pd.concat([jobs, pd.DataFrame([*sums, _sum("total", "", "", jobs)])], ignore_index=True)
    known = table["n_jobs"] - table["n_unknown"]
    table["status"] = [
        "undefined" if n == 0 else "partial" if lost else "ok"
        for n, lost in zip(known, table["n_unknown"], strict=True)
    ]
    return CARBON.frame(table.assign(source=source))


def _sum(scope: str, step: Any, device: Any, part: pd.DataFrame) -> dict[str, Any]:
    pues = part["pue"].dropna().unique()
    return {
        "scope": scope,
        "step": step,
        "device": device,
        "n_jobs": len(part),
        "n_unknown": int(part["n_unknown"].sum()),
        "pue": pues[0] if len(pues) == 1 else math.nan,
        **{name: part[name].sum(min_count=0 if name == "hours" else 1) for name in _SUMMED},
    }


def _host(table: pd.DataFrame, i: int) -> str:
    """Return the devices of a row of codecarbon: its GPUs, else its processor."""
    named = [str(table[name].iloc[i]).strip() for name in ("gpu_model", "cpu_model") if name in table]
    return next((name for name in named if name), "")
