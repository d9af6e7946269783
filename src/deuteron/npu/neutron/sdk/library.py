"""Targets in the interface of the vendor's package, with its names."""
# ruff: noqa: N802, N815

from dataclasses import dataclass

from deuteron.arch import targets


@dataclass(frozen=True, slots=True)
class NeutronTarget:
    """The fields of a target that ExecuTorch reads; `subsystem` is False for an NPU without a controller."""

    name: str
    subsystem: bool
    numUnits: int
    numPipes: int
    numMacs: int
    hwVersion: int


def isNeutronTarget(name: str) -> bool:
    """Return True if NPU programs can be compiled for a target."""
    return name in _names()


def getNeutronTargets() -> tuple[NeutronTarget, ...]:
    """All targets that NPU programs can be compiled for."""
    return tuple(getNeutronTarget(name) for name in _names())


def _names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(targets.load(name).need_neutron().target for name in targets.neutron_names()))


def getNeutronTarget(name: str) -> NeutronTarget:
    """Return the target of that name; OptionError if there is none, or it has no NPU."""
    npu = targets.load(name).need_neutron()
    return NeutronTarget(
        name=name,
        subsystem=False,
        numUnits=npu.units.value,
        numPipes=npu.pipelines.value,
        numMacs=npu.macs_per_pipeline.value,
        hwVersion=npu.hw_version.value,
    )
