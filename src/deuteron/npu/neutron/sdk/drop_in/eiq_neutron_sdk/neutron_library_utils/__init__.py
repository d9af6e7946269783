"""The targets of the converter."""

from deuteron.npu.neutron.sdk.library import getNeutronTargets, isNeutronTarget

__all__ = ["getNeutronTargets", "isNeutronTarget"]
