"""The LaTeX writer: a file a table, figures as SVG and PDF, and one document that holds them all."""

from __future__ import annotations

import re
from dataclasses import replace
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
_LONG, _PRINTED = 40, 60
# letters: on a line of small print; in a column that breaks, in a word and in a number that do not
_FITS = _LINE = 112
_WIDE, _WORD, _NUMBER = 30, 16, 20
_LONG_WORD = re.compile(rf"(\S{{{_WORD}}})(?=\S)")
_LANDSCAPE = r"\begin{landscape}"
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
        head, blocks = rf"\section*{{{latex(section.title)}}}", [_block(block) for block in section.blocks]
        if blocks and blocks[0].startswith(_LANDSCAPE):  # a heading would stand alone on the page before
            blocks[0] = blocks[0].replace(_LANDSCAPE, _LANDSCAPE + head, 1)
            head = ""
        parts += [head, *blocks]
    return "\n\n".join([*parts, r"\end{document}", ""])


def table_to_latex(table: Table) -> str:
    """Return a table as a tabular, a longtable where it has many rows; cells break their lines where it is wide."""
    wrapped = sum(_letters_in_one_line(table, i) for i in range(len(table.columns))) > _FITS
    shares = _shares(table) if wrapped else [0.0] * len(table.columns)
    spec = "".join(_column(column.align, share) for column, share in zip(table.columns, shares, strict=True))
    head = " & ".join(latex(column.title) for column in table.columns) + r" \\"
    body = [" & ".join(_cell(cell, wrapped=wrapped) for cell in row) + r" \\" for row in table.rows]
    if len(table.rows) > _LONG:
        lines = [rf"\begin{{longtable}}{{{spec}}}", r"\toprule", head, r"\midrule", r"\endhead", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{longtable}", ""])
    lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, ""])


def _column(align: str, share: float) -> str:
    """Return a column as wide as its text, or of a share of the line in which text breaks."""
    if not share:
        return "r" if align == "right" else "l"
    side = r"\raggedleft" if align == "right" else r"\raggedright"
    return rf">{{{side}\arraybackslash\hspace{{0pt}}}}p{{\dimexpr{share:.3f}\linewidth-2\tabcolsep\relax}}"


def _shares(table: Table) -> list[float]:
    """Return the share of the line of each column: no word and no number broken, the rest by what each would fill."""
    least, most = zip(*(_letters(table, i) for i in range(len(table.columns))), strict=True)
    room = max(0.0, _LINE - sum(least)) / max(1, sum(most) - sum(least))
    widths = [low + (high - low) * min(1.0, room) for low, high in zip(least, most, strict=True)]
    return [width / sum(widths) for width in widths]


def _letters(table: Table, i: int) -> tuple[int, int]:
    """Return how many letters wide a column must be, and would be; a number is not to be broken."""
    texts = [table.columns[i].title, *(text for row in table.rows for text in (row[i].text, row[i].note))]
    longest = max(map(len, texts))
    word = max((len(word) for text in texts for word in text.split()), default=0)
    number = min(longest, _NUMBER) if table.columns[i].align == "right" else 0
    least = max(min(word, _WORD), number) + 2
    return least, max(least, min(longest, _WIDE) + 2)


def _letters_in_one_line(table: Table, i: int) -> int:
    return max(len(table.columns[i].title), *(len(row[i].text) + len(row[i].note) for row in table.rows)) + 2


def _cell(cell: Cell, *, wrapped: bool = False) -> str:
    if not wrapped:
        return latex(cell.text) + (rf" {{\scriptsize {latex(cell.note)}}}" if cell.note else "")
    return _broken(cell.text) + (rf"\par {{\scriptsize {_broken(cell.note)}}}" if cell.note else "")


def _broken(text: str) -> str:
    """Return text in which a word that no column holds may break."""
    return r"\allowbreak{}".join(latex(part) for part in _LONG_WORD.sub("\\1\0", text).split("\0"))


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
    told, body = block.caption, rf"\input{{tables/{block.name}.tex}}"
    if len(block.rows) > _PRINTED:
        told = f"{told} The first {_PRINTED} of {len(block.rows):,} rows; tables/{block.name}.tex holds all.".strip()
        body = table_to_latex(replace(block, rows=block.rows[:_PRINTED]))
    caption = f"\n\n{{\\small {latex(told)}}}" if told else ""
    if len(block.rows) > _LONG:
        return f"{_LANDSCAPE}{head}\n\n{{\\scriptsize {body}}}{caption}\n\\end{{landscape}}"
    return f"{head}\n\n{{\\footnotesize {body}}}{caption}"


@_block.register
def _(block: Figure) -> str:
    image = rf"\includegraphics[width=0.62\linewidth]{{figures/{block.name}.pdf}}"
    return f"{_head(block.title)}\n\n{image}\n\n{{\\small {latex(block.caption)}}}"


@_block.register
def _(block: Pictures) -> str:
    images = "\n".join(
        rf"\begin{{minipage}}[t]{{0.3\linewidth}}\includegraphics[width=\linewidth]{{figures/{block.name}-{i}.png}}"
        rf"\newline {{\scriptsize {_broken(picture.caption)}}}\vspace{{1em}}\end{{minipage}}"
        for i, picture in enumerate(block.pictures, 1)
    )
    return f"{_head(block.title)}\n\n{{\\small {latex(block.caption)}}}\n\n{{\\raggedright {images}\\par}}"


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
