"""`python -m deuteron`: the command line."""

from deuteron.cli import main

main()
