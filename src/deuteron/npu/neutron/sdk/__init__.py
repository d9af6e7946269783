"""The drop-in `eiq_neutron_sdk`: what ExecuTorch's NXP backend imports, thin over `deuteron.npu.neutron.convert`.

Nothing here happens by import: `install` puts the package where the backend looks for it, `uninstall` takes it away.
"""

from deuteron.npu.neutron.sdk.install import install, uninstall
from deuteron.npu.neutron.sdk.session import Session

__all__ = ["Session", "install", "uninstall"]
