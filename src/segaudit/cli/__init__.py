"""The command line: one thin command a verb."""

from segaudit.cli import confounding as confounding
from segaudit.cli import loading as loading
from segaudit.cli import preparing as preparing
from segaudit.cli import studies as studies
from segaudit.cli.app import main as main
