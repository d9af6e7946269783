"""Operators that Deuteron adds to ExecuTorch's Cortex-M backend: what becomes one, and what each computes."""
