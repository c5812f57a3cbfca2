"""The sections of the report: one function a section, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

from segaudit.reports.document import Section
from segaudit.reports.reading import Reading
from segaudit.reports.sections.cohort import cohort
from segaudit.reports.sections.confounding import confounding
from segaudit.reports.sections.conventions import sensitivity
from segaudit.reports.sections.forensics import forensics
from segaudit.reports.sections.manifest import checklist, glossary
from segaudit.reports.sections.methods import methods
from segaudit.reports.sections.sweeps import sweeps
from segaudit.reports.sections.tests import tests
from segaudit.reports.sections.worst import worst

SECTIONS: tuple[Callable[[Reading], Section], ...] = (
    cohort,
    confounding,
    sweeps,
    tests,
    forensics,
    worst,
    sensitivity,
    methods,
    checklist,
    glossary,
)
"""Every later section in order; page one and the manifest have arguments of their own."""
