"""A build on a model of its target: one run of it, of what another budget would make of it, or beside another build."""

from deuteron.views.simulate.compare import Comparison, compare
from deuteron.views.simulate.run import PartitionRun, Simulation, simulate_build, write_trace

__all__ = ["Comparison", "PartitionRun", "Simulation", "compare", "simulate_build", "write_trace"]
