"""The command line: one file per command, `app.py` lists them."""

from deuteron.cli.app import main

__all__ = ["main"]
