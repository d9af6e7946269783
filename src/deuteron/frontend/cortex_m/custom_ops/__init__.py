"""Operators that Deuteron adds to ExecuTorch's Cortex-M backend: their lowering and their definitions."""
