"""Simulates a build on a model of its target: as it is, for another budget, or compared with another build."""

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
