"""Reports on builds: one module per command or question."""
