"""A build on a model of its target: one run of it, of what another budget would make of it, or beside another build."""

from deuteron.views.simulate.changes import SimulationChanges, changes
from deuteron.views.simulate.checked import CheckedBuild, OpenBuild, Rates, open_build, simulate_build
from deuteron.views.simulate.run import PartitionRun, Simulation, write_trace

__all__ = [
    "CheckedBuild",
    "OpenBuild",
    "PartitionRun",
    "Rates",
    "Simulation",
    "SimulationChanges",
    "changes",
    "open_build",
    "simulate_build",
    "write_trace",
]
