"""Quantisation, after training or in it."""
