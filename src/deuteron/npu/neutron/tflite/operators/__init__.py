"""Readers of TFLite operators: one function per operator, by family; `table.py` lists them."""
