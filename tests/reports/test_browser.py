"""The page in a real browser: opened from disk, nothing loaded, everything that moves says the right numbers."""

import shutil
from pathlib import Path

import pytest

from segaudit.reports.html_pages import to_html
from segaudit.reports.printing import browser, print_pdf

pytestmark = [pytest.mark.browser, pytest.mark.skipif(browser() is None, reason="no Chromium on this machine")]
webdriver = pytest.importorskip("selenium.webdriver")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)
THREE = {"rulers": ("expert", "silver", "bronze"), "groupings": 12, "metrics": ("dice",)}
FIVE = {"rulers": ("expert", "silver", "bronze", "iron", "tin"), "metrics": ("dice",)}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = browser()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    program = shutil.which("chromedriver")
    if program is None:
        pytest.skip("no chromedriver on this machine")
    started = webdriver.Chrome(options, webdriver.ChromeService(program))
    started.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    started.execute_cdp_cmd("Network.enable", {})
    started.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    started.downloads = downloads
    yield started
    started.quit()


@pytest.fixture(scope="module")
def pages(reported, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")

    def written(name, **given):
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(to_html(reported(**given).document))
        return path

    return written


def open_page(driver, path, width=1200):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(path.as_uri())


def rows(driver, table):
    script = """return [...document.querySelectorAll(`#t-${arguments[0]} tbody tr`)].filter(r => !r.hidden)
        .map(r => [...r.cells].map(c => c.textContent.trim()))"""
    return driver.execute_script(script, table)


def test_page__opens_offline_without_error_or_request(driver, pages):
    driver.get_log("performance")
    open_page(driver, pages("plain"))
    assert driver.get_log("browser") == []
    sent = [
        entry["message"] for entry in driver.get_log("performance") if "Network.requestWillBeSent" in entry["message"]
    ]
    assert not [message for message in sent if "http" in message.split('"url":"')[1][:5]]


@pytest.mark.parametrize(
    "name, given",
    [("plain", {}), ("three", THREE), ("none", {"groupings": 0})],
)
def test_page__has_no_horizontal_scroll_at_400_px(driver, pages, name, given):
    open_page(driver, pages(name, **given), width=400)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 400


def test_slider__says_what_the_table_says(driver, pages, reported):
    open_page(driver, pages("plain"))
    shown = driver.execute_script(
        """const box = document.querySelector('.sweep');
        const cells = [...box.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent));
        return [box.querySelector('output').textContent, cells]"""
    )
    assert shown[0] == "> 0.8"
    document = reported().document
    table = next(b for b in document.blocks() if getattr(b, "name", "") == "sweep-table")
    wanted = [
        [r[0].text, r[1].text, r[3].text, f"{r[4].text} {r[4].note}", f"{r[5].text} {r[5].note}", r[6].text]
        for r in table.rows
        if r[2].text == "0.8"
    ]
    assert sorted(shown[1]) == sorted(wanted)
    gaps = next(b for b in document.blocks() if getattr(b, "name", "") == "summary-gaps")
    ratios = {row[0].text: row[5].text.split(" ")[0] for row in gaps.rows}
    assert {r[0]: r[3].split(" ")[0] for r in shown[1] if r[1] == "expert"} == ratios


def test_slider__moves(driver, pages):
    open_page(driver, pages("plain"))
    script = """const input = document.querySelector('.sweep input'); input.value = 0;
        input.dispatchEvent(new Event('input')); return document.querySelector('.sweep output').textContent"""
    assert driver.execute_script(script) == "> 0.5"
    assert "saturated" in driver.execute_script("return document.querySelector('.sweep .flat').textContent")


def test_tables__sort_by_number(driver, pages):
    open_page(driver, pages("plain"))
    script = "document.querySelectorAll('#t-tests-all thead button')[arguments[0]].click()"
    driver.execute_script(script, 9)
    p = [float(row[9].replace("<0.001", "0.0005")) for row in rows(driver, "tests-all")]
    assert p == sorted(p)
    driver.execute_script(script, 9)
    assert [row[9] for row in rows(driver, "tests-all")] != []
    p = [float(row[9].replace("<0.001", "0.0005")) for row in rows(driver, "tests-all")]
    assert p == sorted(p, reverse=True)
    driver.execute_script(script, 3)
    gaps = [float(row[3].split()[0].replace("−", "-")) for row in rows(driver, "tests-all") if "points" in row[3]]
    assert gaps == sorted(gaps)


def test_tables__filter_by_ruler(driver, pages):
    open_page(driver, pages("plain"))
    before = len(rows(driver, "tests-all"))
    script = """const s = document.querySelector('#t-tests-all select[data-column=ruler]'); s.value = 'silver';
        s.dispatchEvent(new Event('change'))"""
    driver.execute_script(script)
    after = rows(driver, "tests-all")
    assert {row[1] for row in after} == {"silver"}
    assert len(after) == before / 2


def download(driver, table, label):
    for old in driver.downloads.iterdir():
        old.unlink()
    script = """const buttons = [...document.querySelectorAll(`#t-${arguments[0]} .bar button`)];
        buttons.find(b => b.textContent === arguments[1]).click()"""
    driver.execute_script(script, table, label)
    for _ in range(50):
        found = [path for path in driver.downloads.iterdir() if path.suffix in (".csv", ".tex")]
        if found:
            return found[0].read_text()
        driver.execute_async_script("setTimeout(arguments[0], 100)")
    raise AssertionError("nothing was downloaded")


def test_tables__offer_csv_and_latex(driver, pages):
    open_page(driver, pages("plain"))
    assert download(driver, "summary-rulers", "CSV").startswith('"ruler","made by"')
    assert download(driver, "summary-rulers", "LaTeX").startswith("\\begin{tabular}{lllrrrl}")


def test_csv__holds_no_formula(driver, tmp_path):
    from segaudit.reports.document import Cell, Column, Document, Section, Table

    cells = ("=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "−3.2", 'a,"b"')
    table = Table("t", "T", (Column("name"), Column("x")), tuple((Cell(text), Cell("1", 1.0)) for text in cells))
    path = tmp_path / "t.html"
    path.write_text(to_html(Document("d", (), (Section("s", "S", (table,)),))))
    open_page(driver, path)
    lines = download(driver, "t", "CSV").splitlines()[1:]
    assert [line.rsplit(",", 1)[0] for line in lines] == [
        "\"'=cmd|' /C calc'!A0\"",
        '"\'+1+1"',
        '"\'@SUM(1)"',
        '"\'-2+3"',
        '"-3.2"',
        '"a,""b"""',
    ]


def test_marks__are_read_by_pointer_and_by_keyboard(driver, pages, reported):
    from selenium.webdriver import ActionChains, Keys

    open_page(driver, pages("plain"))
    script = "const tip = document.querySelector('.tip'); return tip.hidden ? '' : tip.textContent"
    told = lambda: driver.execute_script(script)
    marks = driver.find_elements("css selector", "#f-summary-gaps-figure svg [aria-label]")
    assert len(marks) == 6  # three groupings under two rulers
    gaps = next(b for b in reported().document.blocks() if getattr(b, "name", "") == "summary-gaps")
    wanted = [f"{row[2].text} {row[2].note}" for row in gaps.rows]
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", marks[0])
    ActionChains(driver).move_to_element(marks[0]).perform()
    assert told().endswith(wanted[0])  # the digits of the table
    assert "expert" in told()
    stops = driver.find_elements("css selector", "#f-summary-gaps-figure svg [tabindex='0']")
    assert len(stops) == 1  # one stop a chart
    driver.execute_script("arguments[0].focus()", stops[0])
    read = [told()]
    for _ in range(5):
        ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
        read.append(told())
    assert len(set(read)) == 6
    assert all(any(text.endswith(gap) for text in read) for gap in wanted)
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    assert told() == ""
    assert driver.get_log("browser") == []


def test_page__says_all_without_javascript(driver, pages):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(driver, pages("plain"))
        text = driver.find_element("tag name", "main").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "gap found" in text
    assert "Pass rates at every threshold" in text
    assert "Move the threshold" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page__has_no_serious_fault_for_axe(driver, pages, scheme):
    axe = Path(pytest.importorskip("axe_core_python").__file__).parent / "axe.min.js"
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    open_page(driver, pages("small", groupings=2, metrics=("dice",), labels=("macro",)))
    driver.set_script_timeout(120)
    driver.execute_script(axe.read_text())
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    serious = [
        (v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"] if v["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 20


@pytest.mark.parametrize(
    "name, given",
    [("plain", {}), ("three", THREE), ("five", FIVE), ("none", {"groupings": 0})],
)
def test_print__page_one_is_one_sheet(pages, name, given, tmp_path):
    program = shutil.which("pdftotext")
    if program is None:
        pytest.skip("no pdftotext on this machine")
    import subprocess

    pdf = tmp_path / "report.pdf"
    print_pdf(pages(name, **given), pdf)
    text = [
        subprocess.run(
            [program, "-f", str(n), "-l", str(n), str(pdf), "-"], capture_output=True, check=True, text=True
        ).stdout
        for n in (1, 2)
    ]
    assert "four-fifths" in text[0]  # the footnote, its last words
    assert text[1].lstrip().startswith("Cohort")


@pytest.mark.slow
def test_page__of_a_thousand_cases_opens_in_two_seconds(driver, pages):
    big = pages("big", n=1000, groupings=12, metrics=("dice", "ndsc", "hd95"), resamples=99)
    assert big.stat().st_size < 2_000_000
    open_page(driver, big)
    timing = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd - t.startTime"
    assert driver.execute_script(timing) < 2000
