"""Profiles in other tools' formats."""
