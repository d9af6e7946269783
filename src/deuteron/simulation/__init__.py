"""A build on a model of its target: one run of it, of what another budget would make of it, or beside another build."""

from deuteron.simulation.build import PartitionRun, Simulation, simulate_build, write_trace
from deuteron.simulation.compare import Comparison, compare

__all__ = ["Comparison", "PartitionRun", "Simulation", "compare", "simulate_build", "write_trace"]
