"""Scores: from masks, or from what people already have, to one table."""

from segaudit.scores.base import MACRO as MACRO
from segaudit.scores.base import Scores as Scores
from segaudit.scores.base import merge as merge
from segaudit.scores.clusters import cluster as cluster
from segaudit.scores.ledger import LEDGER as LEDGER
from segaudit.scores.ledger import remove_ledger as remove_ledger
from segaudit.scores.masks import checked_request as checked_request
from segaudit.scores.masks import score as score
from segaudit.scores.masks import score_folders as score_folders
from segaudit.scores.sheets import read_score_table as read_score_table
from segaudit.scores.summaries import read_summary as read_summary
