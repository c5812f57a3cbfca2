"""Loaders: a folder as others deliver it becomes a cohort; nothing is written, everything dropped is counted."""

from segaudit.loaders.base import LOADERS as LOADERS
from segaudit.loaders.base import Loader as Loader
from segaudit.loaders.base import load_delivery as load_delivery
from segaudit.loaders.bids import load_bids as load_bids
from segaudit.loaders.bids import read_label_sidecars as read_label_sidecars
from segaudit.loaders.cspineseg import load_cspineseg as load_cspineseg
from segaudit.loaders.nnunet import load_nnunet as load_nnunet
from segaudit.loaders.synthetic import write_cspineseg as write_cspineseg
from segaudit.loaders.tables import load_table as load_table
