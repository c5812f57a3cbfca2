"""The LaTeX writer: a file a table, figures as SVG and PDF, and one document that holds them all."""

from __future__ import annotations

import re
from functools import singledispatch
from pathlib import Path

from segaudit.reports.bibliography import bibtex, entries
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
    Strong,
    Sweep,
    Table,
    Verdict,
    cannot_draw,
)
from segaudit.reports.svg import to_pdf, to_svg
from segaudit.store import RunDirectory

_WORDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "−": "$-$",
    "–": "--",
    "→": r"$\to$",
    "×": r"$\times$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "²": r"$^2$",
    "ε": r"$\varepsilon$",
    "η": r"$\eta$",
    "κ": r"$\kappa$",
    "α": r"$\alpha$",
    "Δ": r"$\Delta$",
    "…": r"\ldots{}",
    "’": "'",
}
# letters that the engine's Latin fonts hold; another character is named by its code point, never dropped
_LATIN = re.compile(r"[\x20-\x7e\u00a1-\u00ff\u0100-\u017f]")
_LONG = 40
_PREAMBLE = r"""\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usepackage{textcomp}
\usepackage[margin=18mm]{geometry}
\usepackage{booktabs,longtable,array,graphicx,pdflscape}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5em}
\setlength{\tabcolsep}{3pt}
\begin{document}
"""


def latex(text: str) -> str:
    r"""Return text as LaTeX prints it, whatever it holds.

    Examples
    --------
    >>> print(latex("50 % of a_b & {x}"))
    50 \% of a\_b \& \{x\}
    """
    return "".join(_WORDS.get(c) or (c if _LATIN.fullmatch(c) else _named(c)) for c in text)


def _named(character: str) -> str:
    return " " if character.isspace() else f"[U+{ord(character):04X}]"


def to_latex(document: Document) -> str:
    """Return the whole document as LaTeX; tables and figures are read from their files.

    Raises
    ------
    TypeError
        For a block that it cannot write.
    """
    parts = [_PREAMBLE, rf"\section*{{{latex(document.title)}}}"]
    terms = ", ".join(f"{latex(term)} {_cell(cell)}" for term, cell in document.subtitle)
    parts.append(rf"{{\small {terms}}}")
    for section in document.sections:
        parts.append(rf"\section*{{{latex(section.title)}}}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join([*parts, r"\end{document}", ""])


def table_to_latex(table: Table) -> str:
    """Return a table as a tabular, a longtable where it has many rows."""
    wide = max(1, len(table.columns))
    spec = "".join("r" if column.align == "right" else "l" for column in table.columns)
    if wide <= 4:
        spec = "".join(
            c if c == "r" else rf">{{\raggedright\arraybackslash}}p{{{0.82 / wide:.2f}\linewidth}}" for c in spec
        )
    head = " & ".join(latex(column.title) for column in table.columns) + r" \\"
    body = [" & ".join(_cell(cell) for cell in row) + r" \\" for row in table.rows]
    if len(table.rows) > _LONG:
        lines = [rf"\begin{{longtable}}{{{spec}}}", r"\toprule", head, r"\midrule", r"\endhead", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{longtable}", ""])
    lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, ""])


def _cell(cell: Cell) -> str:
    note = rf" {{\scriptsize {latex(cell.note)}}}" if cell.note else ""
    return latex(cell.text) + note


@singledispatch
def _block(block: object) -> str:
    raise cannot_draw("LaTeX", block)


@_block.register
def _(block: Prose) -> str:
    return "".join(_part(part) for part in block.parts)


@_block.register
def _(block: Verdict) -> str:
    return "\n\n".join(rf"\textbf{{{latex(s.word)}}} {latex(s.text)}" for s in block.sentences)


@_block.register
def _(block: Facts) -> str:
    rows = (rf"\item[{{{latex(term)}}}] {_cell(cell)}" for term, cell in block.items)
    return "\n".join([_head(block.title), r"\begin{description}", *rows, r"\end{description}"])


@_block.register
def _(block: Table) -> str:
    head = _head(block.title)
    if not block.rows:
        return f"{head}\n\n{latex(block.empty)}"
    caption = f"\n\n{{\\small {latex(block.caption)}}}" if block.caption else ""
    body = rf"\input{{tables/{block.name}.tex}}"
    if len(block.rows) > _LONG:
        return f"\\begin{{landscape}}{head}\n\n{{\\tiny {body}}}{caption}\n\\end{{landscape}}"
    fitted = rf"\resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{{body}}}"
    return f"{head}\n\n{fitted}{caption}"


@_block.register
def _(block: Figure) -> str:
    image = rf"\includegraphics[width=0.62\linewidth]{{figures/{block.name}.pdf}}"
    return f"{_head(block.title)}\n\n{image}\n\n{{\\small {latex(block.caption)}}}"


@_block.register
def _(block: Pictures) -> str:
    names = (f"figures/{block.name}-{i}.png" for i, _ in enumerate(block.pictures, 1))
    images = "\n".join(rf"\includegraphics[width=0.3\linewidth]{{{name}}}" for name in names)
    return f"{_head(block.title)}\n\n{{\\small {latex(block.caption)}}}\n\n{images}"


@_block.register
def _(block: Beside) -> str:
    return "\n\n".join(_block(inner) for inner in block.blocks)


@_block.register
def _(block: Sweep) -> str:
    return _block(block.table)


@_block.register
def _(block: Findings) -> str:
    rows = (rf"\item {latex(code)}: {latex(message)}" for code, _, message, _, _ in block.items)
    found = [r"\begin{itemize}", *rows, r"\end{itemize}"] if block.items else ["No step left a finding."]
    return "\n".join([_head("Findings"), *found])


@_block.register
def _(_block: Code) -> str:
    return ""  # the plan and the BibTeX entries have files of their own


@_block.register
def _(block: References) -> str:
    rows = [rf"\item {latex(text)}" for _, text in block.items]
    return "\n".join([_head("References"), r"\begin{enumerate}", *rows, r"\end{enumerate}"]) if rows else ""


def _part(part: str | Cite | Strong) -> str:
    if isinstance(part, Cite):
        entry = entries().get(part.key)
        author = entry["author"].split(",")[0] if entry else part.key
        return f" ({author} {entry['year']})" if entry else ""
    return rf"\textbf{{{latex(part.text)}}}" if isinstance(part, Strong) else latex(part)


def _head(title: str) -> str:
    return rf"\subsection*{{{latex(title)}}}" if title else ""


def write_latex(document: Document, folder: Path) -> list[str]:
    """Write report.tex, references.bib, tables/*.tex and figures/*.{svg,pdf}; return their names."""
    run = RunDirectory(folder)
    tables, figures = RunDirectory(folder / "tables", create=True), RunDirectory(folder / "figures", create=True)
    run.write_bytes("report.tex", to_latex(document).encode())
    written = ["report.tex"]
    for block in document.blocks():
        if isinstance(block, Table) and block.rows:
            tables.write_bytes(f"{block.name}.tex", table_to_latex(block).encode())
            written.append(f"tables/{block.name}.tex")
        elif isinstance(block, Figure):
            svg = to_svg(block.chart, block.title, block.alt, block.name)
            figures.write_bytes(f"{block.name}.svg", svg.encode())
            figures.write_bytes(f"{block.name}.pdf", to_pdf(block.chart))
            written += [f"figures/{block.name}.{ending}" for ending in ("svg", "pdf")]
        elif isinstance(block, Pictures):
            for i, picture in enumerate(block.pictures, 1):
                figures.write_bytes(f"{block.name}-{i}.png", picture.png)
                written.append(f"figures/{block.name}-{i}.png")
        elif isinstance(block, References) and block.items:
            run.write_bytes("references.bib", (bibtex(key for key, _ in block.items) + "\n").encode())
            written.append("references.bib")
    return written
