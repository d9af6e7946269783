"""The converter."""

from deuteron.npu.neutron.sdk.library import getNeutronTarget
from deuteron.npu.neutron.sdk.session import Session
from deuteron.npu.neutron.sdk.surface import CompilationContext, Converter

__all__ = ["CompilationContext", "convertModel", "getNeutronTarget"]

convertModel = Converter(Session.of_environment()).convertModel  # noqa: N816 - the vendor's spelling
