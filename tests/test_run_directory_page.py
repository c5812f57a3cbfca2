"""The page on the run directory says what the schemas say."""

from pathlib import Path

import pytest

from segaudit.tables import SCHEMAS

PAGE = (Path(__file__).parents[1] / "docs" / "run-directory.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_page__tells_every_column_as_its_schema_does(schema):
    assert f"\n## {schema.name}\n" in PAGE
    section = PAGE.split(f"\n## {schema.name}\n")[1].split("\n## ")[0]
    assert f"A row is named by {', '.join(f'`{name}`' for name in schema.key)}." in section
    rows = [f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in schema.columns]
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows
