"""The drop-in `eiq_neutron_sdk`: what ExecuTorch's NXP backend imports, thin over `deuteron.convert`.

Nothing here happens by import: `install` puts the package where the backend looks for it, `uninstall` takes it away.
"""

from deuteron.sdk.install import install, uninstall
from deuteron.sdk.session import Session

__all__ = ["Session", "install", "uninstall"]
