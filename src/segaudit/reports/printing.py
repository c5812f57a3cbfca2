"""A page printed to PDF by a Chromium that is on the machine; nothing is fetched."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from segaudit.errors import AuditError, Finding

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_SECONDS = 120
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pdf-header-footer",
)


def browser() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def print_pdf(page: Path, pdf: Path) -> None:
    """Print a page to PDF.

    Raises
    ------
    AuditError
        PDF_NO_BROWSER, PDF_NOT_PRINTED.
    """
    program = browser()
    if program is None:
        fix = "install Chromium, or print report.html from any browser; report.tex makes a PDF with LaTeX."
        raise AuditError(Finding("PDF_NO_BROWSER", "no Chromium was found to print the PDF.", str(pdf), fix))
    with tempfile.TemporaryDirectory(prefix="segaudit-print-", ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "report.pdf"
        command = [
            program,
            *_FLAGS,
            f"--user-data-dir={scratch}/profile",
            f"--print-to-pdf={made}",
            page.resolve().as_uri(),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)  # noqa: S603  our own page
        except (subprocess.SubprocessError, OSError) as error:
            raise _not_printed(pdf, str(error)) from None
        if not made.is_file():
            raise _not_printed(pdf, "the browser wrote no file")
        temporary = pdf.with_name(f".{pdf.name}.part")
        shutil.copyfile(made, temporary)
        temporary.replace(pdf)


def _not_printed(pdf: Path, why: str) -> AuditError:
    fix = "print report.html from any browser; report.tex makes a PDF with LaTeX."
    return AuditError(Finding("PDF_NOT_PRINTED", f"the PDF was not printed: {why[:300]}.", str(pdf), fix))
