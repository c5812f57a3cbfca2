"""What Ctrl-C does, in every command alike."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """The commands; an interrupt of any of them says what to do next."""

    def invoke(self, ctx: Any) -> Any:  # of a class that differs between versions of typer
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted; run the same command again to go on", err=True)
            raise typer.Exit(130) from None
