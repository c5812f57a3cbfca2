"""The bibliography: entries of references.bib, as BibTeX and as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

from segaudit.reports.document import Cite, Prose

_ENTRY = re.compile(r"@(\w+)\{([\w-]+),\n(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*\{(.*?)\},?\s*$", re.MULTILINE)
_LATEX = (("{\\'e}", "é"), ('{\\"o}', "ö"), ('{\\"u}', "ü"), ("{\\'a}", "á"), ("{\\o}", "ø"), ("--", "–"), ("\\&", "&"))


@lru_cache
def entries() -> dict[str, dict[str, str]]:
    """Return every entry by key: its fields, its type as `type` and itself as `bibtex`."""
    text = resources.files("segaudit.reports").joinpath("templates", "references.bib").read_text(encoding="utf-8")
    return {
        key: {"type": kind, "bibtex": f"@{kind}{{{key},\n{body}\n}}", **dict(_FIELD.findall(body))}
        for kind, key, body in _ENTRY.findall(text)
    }


def cited(paragraphs: Iterable[Prose]) -> list[str]:
    """Return the keys that paragraphs cite, each once, in order; unknown ones are left out."""
    keys = (part.key for prose in paragraphs for part in prose.parts if isinstance(part, Cite))
    return [key for key in dict.fromkeys(keys) if key in entries()]


def reference(key: str) -> str:
    """Return an entry as one line of text."""
    entry = entries()[key]
    volume = entry.get("volume", "")
    if volume and "number" in entry:
        volume += f"({entry['number']})"
    place = entry.get("journal") or entry.get("booktitle") or entry.get("publisher") or entry.get("howpublished", "")
    where = " ".join(part for part in (place, volume) if part) + (f": {entry['pages']}" if "pages" in entry else "")
    text = f"{entry['author'].replace(' and ', ', ')} ({entry['year']}). {entry['title']}. {where}."
    for latex, plain in _LATEX:
        text = text.replace(latex, plain)
    return text.replace("{", "").replace("}", "")


def bibtex(keys: Iterable[str]) -> str:
    """Return entries as BibTeX."""
    return "\n\n".join(entries()[key]["bibtex"] for key in keys)
