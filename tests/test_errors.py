"""Every finding code is documented, and the documentation names no code that is gone."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
ROW = re.compile(r"^\| `([A-Z_]+)` \| (.+) \| (.+) \|$", re.MULTILINE)
# upper-case words of the source that name something else
NO_CODES = {
    "DEFAULT_MAX_BYTES",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "SC_PAGE_SIZE",
    "SC_PHYS_PAGES",
}
# codes that are put together where they are raised: what the source writes -> what comes out
COMPOSED = {
    "UNKNOWN_{}": {"UNKNOWN_MODEL", "UNKNOWN_RULER"},
    "{}_MISSING": {"INPUT_MISSING", "OUTPUT_MISSING"},
    "{}_CHANGED": {"INPUT_CHANGED", "OUTPUT_CHANGED"},
    "{}_TOO_LARGE": {"JSON_TOO_LARGE", "SHEET_TOO_LARGE", "SUMMARY_TOO_LARGE", "TOML_TOO_LARGE"},
    "{}_NULL": {"CASE_NULL", "PATIENT_NULL"},
}


def sources():
    return [ast.parse(path.read_text(), str(path)) for path in sorted((ROOT / "src" / "segaudit").rglob("*.py"))]


def written_codes(trees):
    """Return the codes that stand in the source as they are, and those of the registries."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.add(node.value)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Registry" and node.args:
                found.add(f"UNKNOWN_{ast.literal_eval(node.args[0]).upper().replace(' ', '_')}")
    return found - NO_CODES


def composed_codes(trees):
    """Return the patterns of codes that are put together: f-strings of capitals, as 'UNKNOWN_{}'."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args:
                code = node.args[0]
                if isinstance(code, ast.JoinedStr):
                    found.add("".join(p.value if isinstance(p, ast.Constant) else "{}" for p in code.values))
    return found


def documented():
    return {code: (means, do) for code, means, do in ROW.findall((ROOT / "docs" / "errors.md").read_text())}


def test_errors__every_code_is_documented():
    missing = sorted(written_codes(sources()) - documented().keys())
    assert not missing, f"add to docs/errors.md: {', '.join(missing)}"


def test_errors__every_composed_code_is_documented():
    trees = sources()
    unlisted = composed_codes(trees) - COMPOSED.keys()
    assert not unlisted, f"say in this test what these become: {unlisted}"
    assert set().union(*COMPOSED.values()) <= documented().keys()


def test_errors__no_documented_code_is_gone():
    gone = sorted(documented().keys() - written_codes(sources()) - set().union(*COMPOSED.values()))
    assert not gone, f"remove from docs/errors.md: {', '.join(gone)}"


def test_errors__each_code_stands_once_in_a_line_of_its_own():
    text = (ROOT / "docs" / "errors.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(documented())
    assert all(ROW.match(line) for line in rows)
