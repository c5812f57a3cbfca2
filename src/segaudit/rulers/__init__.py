"""Rulers: the same predictions under two references, and whether the other one can be trusted."""

from segaudit.rulers.base import RulerComparison as RulerComparison
from segaudit.rulers.base import compare_rulers as compare_rulers
from segaudit.rulers.models import ModelComparison as ModelComparison
from segaudit.rulers.models import compare_models as compare_models
