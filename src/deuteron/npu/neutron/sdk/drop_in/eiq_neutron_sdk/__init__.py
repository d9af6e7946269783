"""Deuteron in the place of the vendor's package, for commands that `deuteron exec` runs; found there alone."""

from deuteron.npu.neutron.sdk.surface import merge_kernel_selection_files

__all__ = ["merge_kernel_selection_files"]
