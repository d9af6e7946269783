"""Firmware for boards: a program as C tables, compiled, linked, measured, and run in an emulator."""
