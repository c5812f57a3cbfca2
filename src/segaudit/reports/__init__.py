"""The report of an audit: one page that three readers can use, and the pages behind it."""

from segaudit.reports.base import FORMATS as FORMATS
from segaudit.reports.base import Report as Report
from segaudit.reports.base import report as report
