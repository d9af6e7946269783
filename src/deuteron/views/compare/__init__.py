"""Comparisons of a build with its references."""
