"""An explanation: one number or word of an audit, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from segaudit.errors import AuditError, Finding, did_you_mean
from segaudit.registry import Registry


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one number or word of an audit is.

    Attributes
    ----------
    name, title : str
    definition : str
        One or two sentences.
    formula : str
        In plain text, one line a step; empty where there is none.
    reading : str
        How to read it.
    caution : str
        What it is not.
    sources : tuple of str
        Keys in docs/references.bib; empty where the definition is this project's own.
    covers : tuple of str
        Other names under which it stands in the tables.
    """

    name: str
    title: str
    definition: str
    formula: str
    reading: str
    caution: str
    sources: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()

    def citations(self) -> list[str]:
        """Return the sources as text, each with its key."""
        from segaudit.reports.bibliography import reference

        return [f"{reference(key)} [{key}]" for key in self.sources]

    def sections(self) -> Iterator[tuple[str, str]]:
        """Yield heading and text of each part that there is, in the order in which they are read."""
        parts = {
            "": self.definition,
            "formula": self.formula,
            "how to read it": self.reading,
            "what it is not": self.caution,
            "source": "\n".join(self.citations()) or "defined by segaudit",
            "in the tables": ", ".join(self.covers),
        }
        yield from ((heading, text) for heading, text in parts.items() if text)


EXPLANATIONS: Registry[Explanation] = Registry("explanation")


def explained(name: str) -> Explanation:
    """Return the explanation of a name, as it stands in a table or in its own words.

    Parameters
    ----------
    name : str
        Name of an explanation, or a quantity, test, disparity, method or status of a result table; what follows a
        colon (`walsh_ratio: 60+`) is left out.

    Raises
    ------
    AuditError
        UNKNOWN_EXPLANATION, with the nearest name.

    Examples
    --------
    >>> explained("walsh_ratio").name
    'vcd'
    """
    asked = name.split(":", maxsplit=1)[0].strip().lower().replace(" ", "_").replace("-", "_")
    if asked in EXPLANATIONS:
        return EXPLANATIONS[asked]
    also = {other: item for item in EXPLANATIONS for other in item.covers}
    if asked not in also:
        fix = did_you_mean(asked, [*EXPLANATIONS.names(), *also]) + " `segaudit explain` lists them all."
        raise AuditError(Finding("UNKNOWN_EXPLANATION", f"nothing named '{name}' is explained.", fix=fix))
    return also[asked]
