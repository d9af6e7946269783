"""Marks the package as Deuteron's."""
