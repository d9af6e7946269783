"""Memories of a build over time and its fetches, compared with lower bounds."""

from deuteron.views.memory.arenas import ArenaPlanning, arena_planning
from deuteron.views.memory.memories import PartitionPlan, Planning, Prefetch, of_build, planning, write_svg

__all__ = [
    "ArenaPlanning",
    "PartitionPlan",
    "Planning",
    "Prefetch",
    "arena_planning",
    "of_build",
    "planning",
    "write_svg",
]
