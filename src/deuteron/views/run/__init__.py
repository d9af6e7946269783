"""Samples through a build, on the host or on a board."""
