"""What the converter is for."""

from deuteron.npu.neutron.sdk.library import getNeutronTargets, isNeutronTarget

__all__ = ["getNeutronTargets", "isNeutronTarget"]
