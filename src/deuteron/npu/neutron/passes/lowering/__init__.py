"""From operators to kernel calls, one file per family; `passes/select.py` walks the graph."""
