"""The audit: every cell of the plan, described, tested and put beside what chance alone would give."""

from segaudit.audits.base import Audit as Audit
from segaudit.audits.base import audit as audit
from segaudit.audits.plan import Plan as Plan
from segaudit.audits.plan import plan_of as plan_of
