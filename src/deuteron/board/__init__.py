"""Firmware for boards: writes a program as C tables, compiles, links and measures it, and runs it in an emulator."""
