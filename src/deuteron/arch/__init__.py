"""Chips, NPUs and boards as data."""
