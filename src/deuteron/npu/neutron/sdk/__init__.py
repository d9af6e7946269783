"""Drop-in replacement of `eiq_neutron_sdk` for ExecuTorch's NXP backend, a thin layer over `convert`.

Importing this package has no effect: `install` adds `eiq_neutron_sdk` to the import system, `uninstall` removes it.
"""

from deuteron.npu.neutron.sdk.install import install, uninstall
from deuteron.npu.neutron.sdk.session import Session

__all__ = ["Session", "install", "uninstall"]
