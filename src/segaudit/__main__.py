"""`python -m segaudit` is the command line."""

from segaudit.cli import main

main()
