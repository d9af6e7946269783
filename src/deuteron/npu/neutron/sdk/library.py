"""Targets as the vendor's package describes them; its spelling of names is kept."""
# ruff: noqa: N802, N815

from dataclasses import dataclass

from deuteron.arch import targets


@dataclass(frozen=True, slots=True)
class NeutronTarget:
    """The fields of a target that ExecuTorch reads; `subsystem` is False for an NPU without a controller of its own."""

    name: str
    subsystem: bool
    numUnits: int
    numPipes: int
    numMacs: int
    hwVersion: int


def isNeutronTarget(name: str) -> bool:
    """True for a target that NPU programs can be made for."""
    return name in _names()


def getNeutronTargets() -> tuple[NeutronTarget, ...]:
    """All targets that NPU programs can be made for."""
    return tuple(getNeutronTarget(name) for name in _names())


def _names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(targets.load(name).need_neutron().target for name in targets.neutron_names()))


def getNeutronTarget(name: str) -> NeutronTarget:
    """The target of that name; OptionError when there is none, or it has no NPU."""
    npu = targets.load(name).need_neutron()
    return NeutronTarget(
        name=name,
        subsystem=False,
        numUnits=npu.units.value,
        numPipes=npu.pipelines.value,
        numMacs=npu.macs_per_pipeline.value,
        hwVersion=npu.hw_version.value,
    )
