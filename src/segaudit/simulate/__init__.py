"""Simulated scores and cohorts with planted gaps and planted faults of the rulers."""

from segaudit.simulate.cohort import simulate_cohort as simulate_cohort
from segaudit.simulate.scores import TRUTHS as TRUTHS
from segaudit.simulate.scores import ScoreDraw as ScoreDraw
from segaudit.simulate.scores import draw_scores as draw_scores
