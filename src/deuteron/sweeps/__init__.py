"""Sweeps: evaluates combinations of models, targets, memories and clocks, on one computer or many."""
