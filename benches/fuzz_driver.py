"""A million mutated containers through the driver's prepare and run, under the address and undefined sanitizers.

make bench-fuzz-driver
"""

import sys

from fuzzing import Target, main

if __name__ == "__main__":
    sys.exit(main(Target("fuzz_driver"), __doc__))
