"""Version of the microcode format, which includes the numbers and parameters of kernels."""

VERSION_MAJOR = 1
VERSION_MINOR = 2

MINOR_OF_SCRATCH_FETCHES = 1
"""The first minor version with fetches to scratch; programs without them have version 0."""

MINOR_OF_PLACES = 2
"""The first minor version with inputs and outputs in scratch; programs without them have an earlier one."""
