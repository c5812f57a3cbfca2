"""Explanations: what each number and word of an audit is, where it comes from, how to read it, and what it is not."""

from segaudit.explain.base import EXPLANATIONS as EXPLANATIONS
from segaudit.explain.base import Explanation as Explanation
from segaudit.explain.base import explained as explained
from segaudit.explain.disparities import EXPLAINED as _DISPARITIES
from segaudit.explain.independence import EXPLAINED as _INDEPENDENCE
from segaudit.explain.magnitudes import EXPLAINED as _MAGNITUDES
from segaudit.explain.metrics import EXPLAINED as _METRICS
from segaudit.explain.rulers import EXPLAINED as _RULERS
from segaudit.explain.spreads import EXPLAINED as _SPREADS
from segaudit.explain.statuses import EXPLAINED as _STATUSES
from segaudit.explain.tests import EXPLAINED as _TESTS

for _part in (_METRICS, _DISPARITIES, _TESTS, _MAGNITUDES, _SPREADS, _RULERS, _INDEPENDENCE, _STATUSES):
    for _item in _part:
        EXPLANATIONS.register(_item)
