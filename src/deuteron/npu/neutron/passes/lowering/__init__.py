"""Lowers operators to kernel calls, one file per family; called by `passes/kernel_selection.py`."""
