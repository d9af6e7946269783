"""Runs the user's module in eager PyTorch and compares the exported graph with it."""
