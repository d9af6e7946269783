"""A million mutated bundles through the executor's init and two runs, under the address and undefined sanitizers.

make bench-fuzz-bundle
"""

import sys

from fuzzing import Target, main

if __name__ == "__main__":
    sys.exit(main(Target("fuzz_bundle"), __doc__))
