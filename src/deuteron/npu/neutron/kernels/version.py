"""Version of the microcode format, to which the kernels, their numbers and their parameters belong."""

VERSION_MAJOR = 1
VERSION_MINOR = 2

MINOR_OF_SCRATCH_FETCHES = 1
"""The first version in which weights can be fetched to scratch; programs that fetch none there are of version 0."""

MINOR_OF_PLACES = 2
"""The first version in which inputs and outputs may have places in scratch; other programs are of one before."""
