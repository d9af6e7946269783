"""Measures the difference between the quantised and the float model, and reports its causes."""
