"""Where a build's bytes live and when: its memories over time and its fetches, beside what is possible."""

from deuteron.views.memory.memories import PartitionPlan, Planning, Prefetch, planning, write_svg

__all__ = ["PartitionPlan", "Planning", "Prefetch", "planning", "write_svg"]
