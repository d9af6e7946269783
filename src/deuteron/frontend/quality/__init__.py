"""Measures the difference between the quantized and the float model, and reports its causes."""
