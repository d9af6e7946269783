"""Microcode on a model of the hardware: when everything happens, and whether every byte is what it should be."""

from deuteron.npu.neutron.machine.shadow import Hazard, hazards
from deuteron.npu.neutron.machine.timeline import Event, Timeline, Track, simulate

__all__ = ["Event", "Hazard", "Timeline", "Track", "hazards", "simulate"]
