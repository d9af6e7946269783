"""A million mutated streams through the decompression of weights, under the address and undefined sanitizers.

make bench-fuzz-decompress
"""

import sys

from fuzzing import Target, main

if __name__ == "__main__":
    sys.exit(main(Target("fuzz_decompress"), __doc__))
