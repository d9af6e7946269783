"""Where a build's bytes live and when: its memories over time and its fetches, beside what is possible."""

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
