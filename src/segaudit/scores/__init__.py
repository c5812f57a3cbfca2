"""Scores: from masks, or from what people already have, to one table."""

from segaudit.scores.base import MACRO as MACRO
from segaudit.scores.base import Scores as Scores
from segaudit.scores.base import merge as merge
from segaudit.scores.masks import score as score
from segaudit.scores.masks import score_folders as score_folders
from segaudit.scores.sheets import read_score_table as read_score_table
from segaudit.scores.summaries import read_summary as read_summary
