"""The command line: one file per command; `app.py` lists the commands."""

from deuteron.cli.app import main

__all__ = ["main"]
