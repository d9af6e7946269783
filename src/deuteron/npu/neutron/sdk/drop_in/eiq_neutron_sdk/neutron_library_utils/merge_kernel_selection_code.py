"""The vendor's command."""

import sys

from deuteron.npu.neutron.sdk.merge_kernel_selection_code import main

if __name__ == "__main__":
    sys.exit(main())
