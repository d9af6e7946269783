"""Deuteron in the place of the vendor's package, for commands that `deuteron exec` runs, or installed by that name."""

from deuteron.npu.neutron.sdk.install import check_alone
from deuteron.npu.neutron.sdk.surface import merge_kernel_selection_files

__all__ = ["merge_kernel_selection_files"]

check_alone()
