"""Pictures of the report in a real browser, for people to look at, with the size of each page and the time to open it.

    python benchmarks/screens.py FOLDER [--cxr DIR] [--only NAME ...]

Scenarios: a simulated ruler that shares the model's errors (clone), one that widens a gap (biased), one ruler alone
(one), the chest radiographs that two physicians read (physicians; DIR holds masks/ and demographics_nih_rows.csv),
1,000 simulated cases with 12 groupings (many), a hundred groupings and nine metrics, three of them made up (hundred).
Of each: page one at 1,200 px, in the dark and at 400 px, the whole page, and page one as it prints. Needs Chromium,
chromedriver and pdftoppm.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver

from segaudit import by_cuts, by_level, draw_scores, simulate_cohort
from segaudit.audits import Plan
from segaudit.cohorts import Cohort
from segaudit.lines import Means, People, Versus, audit_run, audit_scores, cohort_of_folders, run_plan, score_line
from segaudit.metrics import METRICS
from segaudit.publications import report_run
from segaudit.reports.printing import browser, print_pdf
from segaudit.scores import Scores
from segaudit.tables import SCORES


def of_simulated(folder, rulers):
    cohort = simulate_cohort(folder / "cohort", patients=60, shape=(12, 60, 72), rulers=rulers)
    return run_plan(cohort.parent / "audit.toml", means=Means(2)).run


def clone(folder, _):
    return of_simulated(folder, ["clone"])


def biased(folder, _):
    return of_simulated(folder, ["biased"])


def one(folder, _):
    return of_simulated(folder, [])


def physicians(folder, cxr):
    masks = cxr / "masks"
    references = {name: masks / name for name in ("physician_1", "physician_2")}
    people = People(cxr / "demographics_nih_rows.csv", "Image Index", "Patient ID")
    labels = {"lungs": (1, 2), "heart": (3,)}
    cohort = cohort_of_folders(masks / "auto_hybridgnet", references, labels, people, "model")
    score_line(cohort, folder / "run", metrics=["dice", "hd95"], means=Means(2))
    plan = Plan(groupings=(by_level("sex"), by_cuts("age", "age", 40, 60)), margin={"dice": 0.02})
    return audit_run(folder / "run", plan, Versus("physician_2"), workers=2).run


def drawn(folder, n, groupings, metrics):
    """Audit drawn scores: age carries a gap of 3 points, nothing else carries any."""
    rng = np.random.default_rng(1)
    found = draw_scores(n, rng=rng, gap_points=3.0, noise_ratio=0.3)
    cases = pd.DataFrame({"case": [f"c{i:04d}" for i in range(n)], "patient": [f"p{i:04d}" for i in range(n)]})
    cases["age"] = np.array([30.0, 50.0, 70.0])[found.group] + rng.integers(-9, 9, n)
    chosen = [by_cuts("age", "age", 40, 60)]
    for i in range(1, groupings):
        cases[f"attribute {i}"] = rng.choice(["alpha", "beta", "gamma"], n)
        chosen.append(by_level(f"attribute {i}"))
    rows = []
    for ruler, dice in (("expert", found.trusted), ("silver", found.other)):
        for metric in metrics:
            card = METRICS[metric]
            far = card.better == "lower" or card.unit != "1"
            values = np.round((1 - dice) * 25, 2) if far else dice
            rows += [
                (case, patient, "model", ruler, "vb", metric, value, card.unit, "ok")
                for case, patient, value in zip(cases["case"], cases["patient"], values, strict=True)
            ]
    scores = Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names())))
    plan = Plan(groupings=tuple(chosen), margin={"dice": 0.03}, resamples=199)
    return audit_scores(scores, Cohort("drawn", cases), plan, out=folder / "run").run


def many(folder, _):
    return drawn(folder, 1000, 12, ("dice", "ndsc", "hd95"))


def hundred(folder, _):
    for i in range(1, 4):
        METRICS.register(replace(METRICS["dice"], name=f"overlap_{i}", title=f"overlap {i}"))
    metrics = [card.name for card in METRICS if card.better != "neither"]
    return drawn(folder, 150, 100, metrics)


SCENARIOS = {f.__name__: f for f in (clone, biased, one, physicians, many, hundred)}


def started():
    options = webdriver.ChromeOptions()
    options.binary_location = browser()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--hide-scrollbars"):
        options.add_argument(flag)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))


def picture(driver, path, width, height=0, scheme="light"):
    """Take the page at a width, whole unless a height is given, as far as a picture may be high."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    tall = min(height or 9000, driver.execute_script("return document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": tall, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    path.write_bytes(base64.b64decode(shot["data"]))


def pictures(driver, page, folder, name):
    driver.get(page.as_uri())
    timing = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd - t.startTime"
    opened = driver.execute_script(timing) / 1000
    picture(driver, folder / f"{name}-page-one.png", 1200, 1900)
    picture(driver, folder / f"{name}-dark.png", 1200, 1900, "dark")
    picture(driver, folder / f"{name}-phone.png", 400, 3200)
    picture(driver, folder / f"{name}-whole.png", 1200)
    print_pdf(page, folder / f"{name}.pdf")
    command = ["pdftoppm", "-r", "100", "-f", "1", "-l", "1", "-singlefile", "-png", str(folder / f"{name}.pdf")]
    subprocess.run([*command, str(folder / f"{name}-print")], check=True)
    return opened


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cxr", type=Path)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    driver = started()
    print("scenario    seconds  size of the page, kB  opened in, s")
    try:
        for name in given.only:
            if name == "physicians" and given.cxr is None:
                continue
            work = given.folder / name
            work.mkdir()
            start = time.perf_counter()
            run = SCENARIOS[name](work, given.cxr)
            report_run(run, ["html"])
            spent = time.perf_counter() - start
            page = (run / "report.html").resolve()
            opened = pictures(driver, page, given.folder, name)
            print(f"{name:<11} {spent:7.0f}  {page.stat().st_size / 1000:20.0f}  {opened:12.2f}")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
