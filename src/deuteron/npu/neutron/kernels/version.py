"""Version of the microcode format, to which the kernels, their numbers and their parameters belong."""

VERSION_MAJOR = 1
VERSION_MINOR = 0
