"""Runs samples through a build or a TFLite file, on the host or on a board, with or without a reference."""
