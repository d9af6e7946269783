"""As `fuzz_driver.py`, with the kernels for a device and the inner work for DSP instructions, which are emulated.

make bench-fuzz-driver-dsp
"""

import sys

from fuzzing import Target, main

if __name__ == "__main__":
    sys.exit(main(Target("fuzz_driver_dsp"), __doc__))
