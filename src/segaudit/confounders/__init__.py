"""Confounders: what anatomy, scanner or provenance could have to do with a difference between groups."""

from segaudit.confounders.anatomy import anatomy as anatomy
from segaudit.confounders.anatomy import measure_structures as measure_structures
from segaudit.confounders.base import Confounders as Confounders
from segaudit.confounders.base import confound as confound
from segaudit.confounders.base import confound_run as confound_run
from segaudit.confounders.entanglement import entanglement as entanglement
from segaudit.confounders.readings import CAUTION as CAUTION
from segaudit.confounders.readings import reading as reading
