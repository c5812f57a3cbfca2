"""The HTML writer: one self-contained page, everything escaped, nothing loaded, nothing run but its own script."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from importlib import resources
from typing import Any

from segaudit.reports.document import Block, Cite, Document, Figure, References, cannot_draw
from segaudit.reports.svg import specification, to_svg

_WORDS = ("found", "equivalent", "inconclusive", "not-assessable")


def to_html(document: Document) -> str:
    """Return the document as one HTML page.

    Raises
    ------
    TypeError
        For a block that it cannot draw.
    """
    from markupsafe import Markup

    references = [item for block in document.blocks() if isinstance(block, References) for item in block.items]
    style, script = _asset("style.css"), _asset("script.js")
    page: str = _template().render(
        document=document,
        kind=lambda value: type(value).__name__,
        words=_WORDS,
        pages=sum(section.page for section in document.sections),
        cited={key: i for i, (key, _) in enumerate(references, 1)},
        svg=lambda figure: Markup(_drawn(figure)),  # noqa: S704  the writer of the SVG escapes its words
        base64=lambda data: base64.b64encode(data).decode(),
        script_json=lambda data: Markup(script_json(data)),  # noqa: S704
        refuse=_refuse,
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        style_hash=_sha256(style),
        script_hash=_sha256(script),
    )
    return page + "\n"


def script_json(data: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")


@lru_cache(maxsize=64)
def _svg(spec: str, title: str, alt: str, name: str) -> str:
    return to_svg(json.loads(spec), title, alt, f"f-{name}")


def _drawn(figure: Figure) -> str:
    return _svg(json.dumps(specification(figure.chart)), figure.title, figure.alt, figure.name)


def _refuse(block: Block | Cite) -> str:
    raise cannot_draw("HTML", block)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache
def _asset(name: str) -> str:
    return resources.files("segaudit.reports").joinpath("templates", name).read_text(encoding="utf-8")


@lru_cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_asset("page.html.j2"))
