"""Cohort and MaskSet: who was examined, what is known of them, and whose outlines there are."""

from segaudit.attributes import Attribute as Attribute
from segaudit.cohorts.base import Cohort as Cohort
from segaudit.cohorts.base import Kind as Kind
from segaudit.cohorts.base import Labels as Labels
from segaudit.cohorts.base import MaskSet as MaskSet
from segaudit.cohorts.masks import discover_masks as discover_masks
from segaudit.cohorts.masks import read_labels as read_labels
from segaudit.cohorts.reading import make_cohort as make_cohort
from segaudit.cohorts.reading import read_cohort as read_cohort
from segaudit.cohorts.reading import with_mask_sets as with_mask_sets
from segaudit.cohorts.writing import write_cohort as write_cohort
