"""Statuses: why a score or an estimate is what it is."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="score_status",
        title="status of a score",
        definition="Why a score is a number, infinite, undefined or absent. Every planned score has its row.",
        formula="ok                   a number\n"
        "both_empty           neither mask has the structure: undefined\n"
        "prediction_empty     only the reference has it: overlap 0, distance infinite\n"
        "reference_empty      only the prediction has it: overlap 0, distance infinite\n"
        "prediction_missing   there is no prediction: the worst score, unless excluded\n"
        "reference_missing    there is no reference: not counted\n"
        "not_scored           the files could not be compared",
        reading="No infinity is stored: the value is empty and the status says which. Rank tests place infinite "
        "ones last.",
        caution="both_empty is neither a success nor a failure unless the plan says so (undefined.both_empty).",
        sources=("taha2015",),
        covers=(
            "both_empty",
            "prediction_empty",
            "reference_empty",
            "prediction_missing",
            "reference_missing",
            "not_scored",
        ),
    ),
    Explanation(
        name="estimate_status",
        title="status of an estimate",
        definition="Why an estimate is there, or is not. A result that cannot be had is a row with a status, and "
        "still counts in its family.",
        formula="ok                 estimated\n"
        "too_few_patients   fewer than two groups have min_patients patients\n"
        "one_group          only one group occurs\n"
        "saturated          no failure in any group, or all scores equal\n"
        "undefined          no score is defined, or the ratio is 0 / 0\n"
        "not_estimable      a ratio to something near zero",
        reading="'not tested' is not 'no gap'.",
        caution="min_patients is a limit of inference, not of privacy.",
        covers=(
            "ok",
            "too_few_patients",
            "one_group",
            "undefined",
            "not_estimable",
            "status",
        ),
    ),
)
