"""Microcode on a model of the hardware: when everything happens, and whether every byte is what it should be."""

from deuteron.npu.neutron.machine.memory_check import hazards
from deuteron.npu.neutron.machine.timeline import simulate

__all__ = ["hazards", "simulate"]
