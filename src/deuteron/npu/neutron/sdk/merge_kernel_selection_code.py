"""The vendor's command, run as a module: `-input-files A.c B.c -output-file C.c`."""

import argparse
import sys
from collections.abc import Sequence

from deuteron.errors import DeuteronError
from deuteron.npu.neutron.sdk.surface import merge_kernel_selection_files


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 when the merged file was written."""
    parser = argparse.ArgumentParser(
        prog="python -m deuteron.npu.neutron.sdk.merge_kernel_selection_code",
        description="Write one kernel selection file that selects all kernels of the given ones.",
    )
    parser.add_argument("-input-files", nargs="+", required=True, metavar="FILE", help="files to merge")
    parser.add_argument("-output-file", required=True, metavar="FILE", help="file to write; replaced if it exists")
    options = parser.parse_args(arguments)
    try:
        merge_kernel_selection_files(options.input_files, options.output_file)
    except DeuteronError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
