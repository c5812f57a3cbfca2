"""Reports: the audit as a page, as LaTeX and as JSON."""
