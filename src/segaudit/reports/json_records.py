"""The JSON writer: the same document for machines, with the texts that the page shows and the numbers behind them."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import singledispatch
from typing import Any

from segaudit.reports.document import (
    Beside,
    Cell,
    Cite,
    Code,
    Document,
    Facts,
    Figure,
    Findings,
    Pictures,
    Prose,
    References,
    Sweep,
    Table,
    Verdict,
    cannot_draw,
)
from segaudit.reports.svg import specification

SCHEMA = "segaudit-report-1"


def to_json(document: Document) -> dict[str, Any]:
    """Return the document as a JSON value.

    Raises
    ------
    TypeError
        For a block that it cannot write.
    """
    return {
        "schema": SCHEMA,
        "title": document.title,
        "subtitle": {term: _cell(cell) for term, cell in document.subtitle},
        "sections": [
            {"name": section.name, "title": section.title, "blocks": [_block(block) for block in section.blocks]}
            for section in document.sections
        ],
    }


def page_one(document: Document) -> dict[str, Any]:
    """Return the title line and the page one of each model: every text as shown, a chart by its words."""
    first = replace(document, sections=tuple(section for section in document.sections if section.page))
    shown: dict[str, Any] = _without_charts(to_json(first))
    return shown


def _without_charts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_charts(inner) for key, inner in value.items() if key not in ("schema", "vega_lite")}
    return [_without_charts(inner) for inner in value] if isinstance(value, list) else value


def _cell(cell: Cell) -> dict[str, Any]:
    parts = {"text": cell.text, "value": cell.value, "note": cell.note}
    return {key: value for key, value in parts.items() if value not in ("", None) or key == "text"}


@singledispatch
def _block(block: object) -> dict[str, Any]:
    raise cannot_draw("JSON", block)


@_block.register
def _(block: Prose) -> dict[str, Any]:
    texts = [p if isinstance(p, str) else p.key if isinstance(p, Cite) else p.text for p in block.parts]
    return {"type": "prose", "parts": texts}


@_block.register
def _(block: Verdict) -> dict[str, Any]:
    return {"type": "verdict", "sentences": [{"word": s.word, "text": s.text} for s in block.sentences]}


@_block.register
def _(block: Facts) -> dict[str, Any]:
    return {"type": "facts", "title": block.title, "items": {term: _cell(cell) for term, cell in block.items}}


@_block.register
def _(block: Table) -> dict[str, Any]:
    own = {"name": block.name, "title": block.title, "caption": block.caption}
    columns = [column.title for column in block.columns]
    return {"type": "table", **own, "columns": columns, "rows": [[_cell(c) for c in row] for row in block.rows]}


@_block.register
def _(block: Figure) -> dict[str, Any]:
    own = {"name": block.name, "title": block.title, "alt": block.alt, "caption": block.caption}
    return {"type": "figure", **own, "vega_lite": specification(block.chart)}


@_block.register
def _(block: Pictures) -> dict[str, Any]:
    images = [
        {"alt": p.alt, "caption": p.caption, "png_base64": base64.b64encode(p.png).decode()} for p in block.pictures
    ]
    return {"type": "pictures", "name": block.name, "title": block.title, "pictures": images}


@_block.register
def _(block: Beside) -> dict[str, Any]:
    return {"type": "beside", "blocks": [_block(inner) for inner in block.blocks]}


@_block.register
def _(block: Sweep) -> dict[str, Any]:
    return {"type": "sweep", "name": block.name, "data": block.data, "table": _block(block.table)}


@_block.register
def _(block: Findings) -> dict[str, Any]:
    keys = ("code", "level", "message", "where", "fix")
    return {"type": "findings", "items": [dict(zip(keys, item, strict=True)) for item in block.items]}


@_block.register
def _(block: Code) -> dict[str, Any]:
    return {"type": "code", "title": block.title, "language": block.language, "text": block.text}


@_block.register
def _(block: References) -> dict[str, Any]:
    return {"type": "references", "items": dict(block.items)}
