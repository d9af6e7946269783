"""Samples through a build or a TFLite file, on the host or on a board, alone or beside a reference."""
