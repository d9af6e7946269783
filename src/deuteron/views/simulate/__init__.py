"""A build on a model of its target: one run of it, of what another budget would make of it, or beside another build."""

from deuteron.views.simulate.changes import SimulationChanges, changes
from deuteron.views.simulate.run import PartitionRun, Simulation, simulate_build, write_trace

__all__ = ["PartitionRun", "Simulation", "SimulationChanges", "changes", "simulate_build", "write_trace"]
