"""A report as data: sections of frozen blocks. Writers are pure functions over it; this module draws nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

Tone = Literal["", "found", "equivalent", "inconclusive", "not-assessable", "warning", "quiet"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell: the text as shown everywhere, and the number behind it.

    Attributes
    ----------
    text : str
    value : float or None
        For sorting and for machines; None for words.
    note : str
        A second, smaller line.
    tone : str
        How it is marked beside its words (never by colour alone).
    """

    text: str
    value: float | None = None
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, where its cells stand, and whether readers may filter by it."""

    title: str
    align: Literal["left", "right"] = "left"
    filter: bool = False


@dataclass(frozen=True, slots=True)
class Cite:
    """A reference by its key in the bibliography."""

    key: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Words that carry the sentence."""

    text: str


Text: TypeAlias = str | Cite | Strong


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph.

    Attributes
    ----------
    parts : tuple of str, Cite or Strong
    role : {"body", "lead", "note"}
    """

    parts: tuple[Text, ...]
    role: Literal["body", "lead", "note"] = "body"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the verdict: its fixed word, what it says, and what it rests on."""

    word: str
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict box."""

    sentences: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms with their values, in a strip or a list."""

    title: str
    items: tuple[tuple[str, Cell], ...]
    role: Literal["strip", "list"] = "list"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first column names its rows.

    Attributes
    ----------
    name : str
        Unique in the document; names the files.
    title : str
    columns : tuple of Column
    rows : tuple of tuple of Cell
    caption : str
        What to read from it.
    sortable : bool
    empty : str
        What is said in place of a table without rows.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    sortable: bool = False
    empty: str = "Nothing to show."


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its text alternative and how it is read.

    Attributes
    ----------
    name : str
        Unique in the document; names the files.
    title : str
    chart : Altair chart
    alt : str
        What the chart shows, in words.
    caption : str
        How it is read.
    """

    name: str
    title: str
    chart: Any
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image: PNG bytes, what it shows in words, and its caption."""

    png: bytes
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Pictures:
    """Images beside each other, with a key to their lines."""

    name: str
    title: str
    caption: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks beside each other where there is room."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Success rates at every planned threshold, for a slider; the table is what stands there without one.

    Attributes
    ----------
    table : Table
    data : mapping
        JSON: scores, each with its thresholds, the declared one, and per ruler and grouping the rows at each threshold.
    """

    name: str
    table: Table
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of the steps, each with code, level, fact, place and fix."""

    items: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy as it stands."""

    title: str
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class References:
    """The references that the prose cites: key and text."""

    items: tuple[tuple[str, str], ...]


Block: TypeAlias = Prose | Verdict | Facts | Table | Figure | Pictures | Beside | Sweep | Findings | Code | References


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report with a heading.

    Attributes
    ----------
    name : str
        Unique; the anchor.
    title : str
    blocks : tuple of Block
    page : bool
        Whether it is a page one: it stands on a sheet of its own in print.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    page: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The report.

    Attributes
    ----------
    title : str
    subtitle : tuple of (str, Cell)
        The title line: terms with their values.
    sections : tuple of Section
    """

    title: str
    subtitle: tuple[tuple[str, Cell], ...] = ()
    sections: tuple[Section, ...] = field(default_factory=tuple)

    def blocks(self) -> Iterator[Block]:
        """Yield every block in order, those beside each other one by one."""
        for section in self.sections:
            yield from _flat(section.blocks)


def _flat(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Beside):
            yield from _flat(block.blocks)
        elif isinstance(block, Sweep):
            yield block
            yield block.table
        else:
            yield block


def cannot_draw(writer: str, block: object) -> TypeError:
    """Return the error of a writer that meets a block it does not know."""
    return TypeError(f"the {writer} writer cannot draw a block of type {type(block).__name__}")


def prose(*parts: Text, role: Literal["body", "lead", "note"] = "body") -> Prose:
    """Return a paragraph of these parts."""
    return Prose(parts, role)


def long_table(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    rows: Sequence[tuple[Cell, ...]],
    caption: str,
    *,
    most: int,
    file: str,
    empty: str = "Nothing to show.",
) -> Table:
    """Return a sortable table of the first rows, which says where the others are."""
    if len(rows) > most:
        caption = f"{caption} The first {most:,} of {len(rows):,}; {file} of the run holds all.".strip()
    return Table(name, title, columns, tuple(rows[:most]), caption, sortable=True, empty=empty)


def renamed(section: Section, name: str, title: str, suffix: str) -> Section:
    """Return a section under another name, its blocks' names with a suffix, so that two models do not share one."""

    def again(block: Block) -> Block:
        if isinstance(block, Beside):
            return Beside(tuple(again(inner) for inner in block.blocks))
        if isinstance(block, Sweep):
            table = replace(block.table, name=block.table.name + suffix)
            return replace(block, name=block.name + suffix, table=table)
        if isinstance(block, Table | Figure | Pictures):
            return replace(block, name=block.name + suffix)
        return block

    return replace(section, name=name, title=title, blocks=tuple(again(block) for block in section.blocks))
