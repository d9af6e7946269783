"""Simulator of microcode: timeline, and checks of every byte by shadow memory."""

from deuteron.npu.neutron.machine.memory_check import hazards
from deuteron.npu.neutron.machine.timeline import simulate

__all__ = ["hazards", "simulate"]
