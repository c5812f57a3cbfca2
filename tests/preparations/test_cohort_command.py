"""`segaudit cohort`: Table 1 and the comparability of parts, in three formats that agree."""

import json
import shutil
import subprocess
from html.parser import HTMLParser

import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from segaudit.loaders import load_cspineseg, write_cspineseg

KEYS = ("--key", "case", "--patient", "patient")


@pytest.fixture
def table_one(command, study_file, tmp_path):
    def run(*options):
        done = command("cohort", "--participants", study_file, *KEYS, *options, "-o", tmp_path / "out")
        assert done.status == 0, done.err
        return tmp_path / "out", done.out

    return run


def cells(table, part="(all)"):
    own = table[table["part"] == part]
    return {(a, level): (n, pct) for a, level, n, pct in own[["attribute", "level", "n_cases", "pct_cases"]].to_numpy()}


def test_cohort__counts_exams_and_patients_by_level(table_one, study):
    out, said = table_one("--attribute", "sex", "--attribute", "age", "--attribute", "age:40,60", "--attribute", "race")
    table = pd.read_csv(out / "table1.csv")
    found = cells(table)
    assert found["(all)", "(all)"][0] == len(study)
    for name in ("sex", "race"):
        for level, n in study[name].replace({"F": "Female", "M": "Male"}).value_counts().items():
            assert found[name, level] == (n, pytest.approx(100 * n / 1255))
    # the 13 redacted ages are in the oldest bin, and in no mean
    assert found["age", "(top-coded)"][0] == 13
    assert [found["age:40,60", level][0] for level in ("<40", "40-60", "60+")] == [241, 486, 528]
    ages = study["age"][~study["age"].str.endswith("+")].astype(float)
    row = table[(table["attribute"] == "age") & (table["level"] == "(number)")].iloc[0]
    assert [row["mean"], row["sd"], row["median"]] == pytest.approx([ages.mean(), ages.std(), ages.median()])
    assert "684 (54.5)" in said
    assert "field" not in said, "a column that nobody asked for is not told of"
    assert sorted(path.name for path in out.iterdir()) == ["cohort.html", "steps.json", "table1.csv", "table1.tex"]


def test_cohort__percentages_of_the_published_table(command, shared, tmp_path):
    """The published counts, as a table of exams without the excluded one, give the published percentages."""
    published = json.loads((shared / "reference" / "published.json").read_text())["table1_cohort"]
    names = ("sex", "race", "ethnicity", "manufacturer", "magnetic_field_strength", "age_three_bins")
    n = published["n0_exams"]
    columns = {name: [str(r["value"]) for r in published[name] for _ in range(r["n"])] for name in names}
    people = [f"p{i:04d}" if i < published["n_patients"] else f"p{i - 1231:04d}" for i in range(n)]
    table = pd.DataFrame({"case": [f"c{i:04d}" for i in range(n)], "patient": people, **columns})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command("cohort", "--participants", tmp_path / "t.csv", *KEYS, "-o", tmp_path / "out")
    assert done.status == 0, done.err
    found = cells(pd.read_csv(tmp_path / "out" / "table1.csv"))
    for name in names:
        for row in published[name]:
            level = "(missing)" if row["value"] == "Not Reported" else str(row["value"])
            assert found[name, level][0] == row["n"]
            assert round(found[name, level][1], 1) == row["pct"], (name, row)


def test_cohort__parts_and_what_is_left_out(table_one, command, study_file, study, tmp_path):
    split = tmp_path / "split"
    command("split", "--participants", study_file, *KEYS, "--stratify", "sex", "--balance", "sex", "-o", split)
    made = pd.read_csv(split / "splits.csv")
    out, said = table_one("--splits", split / "splits.csv", "--by", "split", "--by", "provenance", "--attribute", "sex")
    table = pd.read_csv(out / "table1.csv")
    own = made.merge(study, on="case")
    assert set(table["part"]) == {"(all)", *(own["split"] + " / " + own["provenance"])}
    assert cells(table)["(all)", "(all)"][0] == len(own)
    gold = own[(own["split"] == "test") & (own["provenance"] == "gold")]
    assert cells(table, "test / gold")["sex", "Female"][0] == (gold["sex"] == "Female").sum()
    assert f"CASES_IN_NO_PART: {len(study) - len(own)} of 1255 cases" in said


def test_cohort__comparability_with_the_correction_that_was_published(command, shared, tmp_path):
    published = json.loads((shared / "reference" / "published.json").read_text())["gold_silver_comparability"]
    sex = next(row for row in published["comparisons"] if row["attribute"] == "Sex")
    rows = [(part, level) for part, own in sex["counts"].items() for level, n in own.items() for _ in range(n)]
    table = pd.DataFrame(rows, columns=["provenance", "sex"])
    table.insert(0, "case", [f"c{i}" for i in range(len(table))])
    table["patient"] = table["case"]
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("cohort", "--participants", tmp_path / "t.csv", *KEYS, "--attribute", "sex", "--compare", "provenance")
    told = json.loads(command(*words, "--yates", "--json").out)["comparability"][0]
    assert told["statistic"] == pytest.approx(sex["stat"], rel=1e-5)
    assert told["effect"] == pytest.approx(sex["effect"]["value"], rel=1e-5)
    assert told["p"] == pytest.approx(sex["p"], rel=1e-5)
    plain = json.loads(command(*words, "--json").out)["comparability"][0]
    counts = pd.crosstab(table["provenance"], table["sex"])
    assert plain["statistic"] == pytest.approx(chi2_contingency(counts, correction=False).statistic)
    assert plain["verdict"] == "inconclusive"


class _Rows(HTMLParser):
    """The cells of every row of a page, and the names of the tags that were met."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags, self._open = [], set(), False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        self._open = tag in ("td", "th")
        if self._open:
            self.rows[-1].append("")

    def handle_data(self, data):
        if self._open and self.rows:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag):
        self._open = self._open and tag not in ("td", "th")


EVIL = [r"<img src=x onerror=alert(1)>", r"\input{/etc/passwd} & 50 % $x_1$ #", "=1+1"]


def test_cohort__words_of_the_table_stay_words_in_html_and_latex(command, tmp_path):
    table = pd.DataFrame({"case": [f"c{i}" for i in range(30)], "patient": [f"p{i}" for i in range(30)]})
    table["site"] = EVIL * 10
    table["</title><script>x</script>"] = ["a", "b"] * 15
    table.to_csv(tmp_path / "t.csv", index=False)
    done = command(
        "cohort", "--participants", tmp_path / "t.csv", *KEYS, "--by", "site", "--compare", "site", "-o", tmp_path
    )
    assert done.status == 0, done.err
    page = _Rows()
    text = (tmp_path / "cohort.html").read_text()
    page.feed(text)
    assert "img" not in page.tags
    assert text.count("<script") == 1, "the page's own"
    assert any(EVIL[0] in cell for row in page.rows for cell in row)
    latex = (tmp_path / "table1.tex").read_text()
    assert r"\input" not in latex
    assert r"\textbackslash{}input\{/etc/passwd\} \& 50 \%" in latex
    assert "onerror" in done.out, "shown as words"


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
def test_cohort__latex_tables_compile(command, tmp_path):
    table = pd.DataFrame({"case": [f"c{i}" for i in range(30)], "patient": [f"p{i}" for i in range(30)]})
    table["site"], table["<age> & ~^_"] = EVIL * 10, ["ä ≥ 1", "中"] * 15
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("--participants", tmp_path / "t.csv", *KEYS, "--by", "site", "--compare", "site", "-o", tmp_path)
    assert command("cohort", *words).status == 0
    body = r"\input{table1.tex} \input{comparability.tex}"
    packages = r"\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,longtable,array}"
    (tmp_path / "t.tex").write_text(rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}")
    compiler = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    made = subprocess.run(compiler, cwd=tmp_path, capture_output=True, check=False)
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-2000:]


def test_cohort__formats_agree(table_one):
    out, said = table_one("--attribute", "sex", "--by", "provenance")
    table = pd.read_csv(out / "table1.csv")
    page = _Rows()
    page.feed((out / "cohort.html").read_text())
    latex = (out / "table1.tex").read_text()
    for part in ("gold", "silver"):
        n, pct = cells(table, part)["sex", "Female"]
        shown = f"{n} ({pct:.1f})"
        assert any(shown in row for row in page.rows)
        assert shown in latex
        assert shown in said


def test_cohort__takes_what_can_be_tabulated(command, table_file):
    rows = [(f"c{i}", f"p{i}", "FM"[i % 2], f"note {i}", 50 + 1.5 * i, 30 + i) for i in range(40)]
    file = table_file(("case", "patient", "sex", "note", "weight", "age"), *rows)
    told = json.loads(command("cohort", "--participants", file, *KEYS, "--json").out)
    assert list(dict.fromkeys(row["attribute"] for row in told["table1"])) == ["(all)", "sex", "age", "weight"]
    assert any(f["code"] == "ATTRIBUTES_LEFT_OUT" and "(note)" in f["message"] for f in told["findings"])
    weight = next(row for row in told["table1"] if row["attribute"] == "weight")
    assert weight["mean"] == pytest.approx(50 + 1.5 * 19.5)


@pytest.mark.parametrize(
    ("options", "code", "fact"),
    [
        (("--attribute", "sexx"), "UNKNOWN_ATTRIBUTE", "did you mean 'sex'"),
        (("--by", "age"), "GROUPING_NEEDS_CUTS", "age:40,60"),
        (("--compare", "nothing"), "UNKNOWN_ATTRIBUTE", "--compare nothing"),
        (("--splits", "none.csv"), "FILE_MISSING", "none.csv"),
        (("--attribute", "sex=F,F"), "GROUPING_LEVELS", "names F twice"),
        (("--by", "sex*sex"), "GROUPING_TWICE", "divides 'sex' twice"),
        (("--attribute", "sex", "--compare", "sex"), "ATTRIBUTES_NONE", "nothing to compare"),
    ],
)
def test_cohort__refuses_and_writes_nothing(command, study_file, tmp_path, options, code, fact):
    done = command("cohort", "--participants", study_file, *KEYS, *options, "-o", tmp_path / "out")
    assert (done.status, done.err.split(":")[0]) == (2, code)
    assert fact in done.err
    assert not (tmp_path / "out").exists()


def test_cohort__a_split_of_other_cases_is_refused(command, study_file, table_file):
    split = table_file(("case", "split"), ("e0001", "train"), ("stranger", "test"), name="splits.csv")
    done = command("cohort", "--participants", study_file, *KEYS, "--splits", split, "--by", "split")
    assert (done.status, done.err.split(":")[0]) == (2, "SPLIT_CASE_UNKNOWN")


def test_cohort__levels_and_last_column_are_seen_beside_many_parts(command, table_file):
    rows = [(f"c{i}", f"p{i}", "FM"[i % 2], "abcdef"[i % 6], "xyz"[i % 3]) for i in range(60)]
    file = table_file(("case", "patient", "sex", "part", "a_column_with_a_very_long_name_indeed"), *rows)
    out = command("cohort", "--participants", file, *KEYS, "--by", "part").out
    lines = out.splitlines()
    assert "Female" in out
    assert any(line.split()[-1:] == ["diff."] for line in lines)
    assert max(map(len, lines)) <= 120
    assert "3 more parts are in table1.csv" in " ".join(out.split())


def test_cohort__an_attribute_may_be_named_as_its_column_is(command, table_file):
    file = table_file(
        ("case", "patient", "Sex", "pool"), *[(f"c{i}", f"p{i}", "FM"[i % 2], "ab"[i % 3 > 0]) for i in range(12)]
    )
    for name in ("Sex", "sex", "SEX"):
        options = ("--attribute", name, "--compare", "pool", "--json")
        told = json.loads(command("cohort", "--participants", file, *KEYS, *options).out)
        levels = {row["level"]: row["n_cases"] for row in told["table1"] if row["attribute"] == name}
        assert levels == {"Female": 6, "Male": 6, "(missing)": 0}
        assert [row["attribute"] for row in told["comparability"]] == [name]
    told = json.loads(command("cohort", "--participants", file, *KEYS, "--attribute", "Sex", "--json").out)
    assert {row["attribute"] for row in told["table1"]} == {"(all)", "Sex"}, "not under both names"


def test_cohort__codes_that_nothing_explains_are_one_warning(command, table_file):
    rows = [(f"c{i}", f"p{i}", i % 2, i % 3, i % 4) for i in range(12)]
    file = table_file(("case", "patient", "a", "b", "c"), *rows)
    told = json.loads(command("cohort", "--participants", file, *KEYS, "--json").out)
    (found,) = (one for one in told["findings"] if one["code"] == "LEVEL_CODES_UNEXPLAINED")
    assert "3 columns" in found["message"]
    assert "'a', 'b', 'c'" in found["message"]
    told = json.loads(command("cohort", "--participants", file, *KEYS, "--attribute", "b", "--json").out)
    (found,) = (one for one in told["findings"] if one["code"] == "LEVEL_CODES_UNEXPLAINED")
    assert "'0' (4), '1' (4), '2' (4)" in found["message"]


def test_cohort__the_table_of_a_loaded_cohort_can_be_read_again(command, tmp_path):
    names = write_cspineseg(tmp_path / "delivery", n_exams=120, n_patients=110, seed=3)
    cohort = load_cspineseg(tmp_path / "delivery", gold=names[:50])
    cohort.cases.to_csv(tmp_path / "people.csv", index=False)
    told = json.loads(command("cohort", "--participants", tmp_path / "people.csv", *KEYS, "--json").out)
    rows = {(row["attribute"], row["level"]): row for row in told["table1"]}
    assert rows["(all)", "(all)"]["n_cases"] == len(cohort.cases)
    redacted = int(cohort.cases["age_top_coded"].sum())
    assert redacted > 0
    assert rows["age", "(top-coded)"]["n_cases"] == redacted
    known = cohort.cases.loc[~cohort.cases["age_top_coded"], "age"]
    assert rows["age", "(number)"]["mean"] == pytest.approx(known.mean())
    assert rows["provenance", "gold"]["n_cases"] == (cohort.cases["provenance"] == "gold").sum()
