"""segaudit audits segmentation models for group disparities, and the reference they are scored against.

Examples
--------
>>> import segaudit as sa
>>> plan = sa.Plan(groupings=[sa.by_level("sex", "Female", "Male"), sa.by_cuts("age_band", "age", 40, 60)])
>>> [grouping.levels for grouping in plan.groupings]
[('Female', 'Male'), ('<40', '40-60', '60+')]
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What the library offers by name and the module it comes from: imported when first asked for, so that the command
# line starts at once.
_EXPORTS = {
    "AuditError": "errors",
    "Finding": "errors",
    "Cohort": "cohorts",
    "MaskSet": "cohorts",
    "make_cohort": "cohorts",
    "read_cohort": "cohorts",
    "read_participants": "participants",
    "Grouping": "groupings",
    "by_level": "groupings",
    "by_cuts": "groupings",
    "crossing": "groupings",
    "Scores": "scores",
    "score": "scores",
    "score_folders": "scores",
    "read_score_table": "scores",
    "read_summary": "scores",
    "merge": "scores",
    "Plan": "audits",
    "Audit": "audits",
    "audit": "audits",
    "RulerComparison": "rulers",
    "compare_rulers": "rulers",
    "ModelComparison": "rulers",
    "compare_models": "rulers",
    "report": "reports",
    "plot_rulers": "reports.figures",
    "plot_gaps": "reports.figures",
    "plot_groups": "reports.figures",
    "plot_sweep": "reports.figures",
    "plot_shift": "reports.figures",
    "plot_plane": "reports.figures",
    "plot_anatomy": "reports.confounder_figures",
    "plot_entanglement": "reports.confounder_figures",
    "plot_associations": "reports.confounder_figures",
    "plot_adjusted": "reports.confounder_figures",
    "plot_dice_ndsc": "reports.confounder_figures",
    "simulate_cohort": "simulate",
    "draw_scores": "simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'segaudit' has no attribute '{name}'")
    return getattr(import_module(f"segaudit.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_EXPORTS]
