"""Deuteron."""
