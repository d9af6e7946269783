"""Random TFLite models of one operator each, by the C operators of a Cortex-M on this machine and by LiteRT.

Compares bytes, and prints the operator and the number of each model that differs: `make_model(name, number)` makes it
again. Run as `python benches/tflite_operators.py [MODELS PER OPERATOR] [OPERATOR ...]`.
"""

import sys
import zlib

import numpy as np
from tests.cortex_m.operator_library import OperatorLibrary
from tests.tflite.cortex_m import models, more_models, movement_models, plain_models
from tests.tflite.cortex_m.running import compare

from deuteron.arch.cores import InnerWork
from deuteron.tflite.flat_model import FlatModel

MODELS = {**models.MODELS, **movement_models.MODELS, **more_models.MODELS, **plain_models.MODELS}


def make_model(name: str, number: int) -> tuple[FlatModel, np.random.Generator]:
    """A random model, and the generator that makes its inputs."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    return MODELS[name](rng), rng


def main(arguments: list[str]) -> int:
    """Exit status: 1 when a model differs."""
    count = int(arguments[0]) if arguments else 100
    chosen = [name for name in MODELS if not arguments[1:] or name.partition("-")[0] in arguments[1:]]
    c_operators, different = OperatorLibrary(InnerWork.PORTABLE), 0
    for name in chosen:
        for number in range(count):
            model, rng = make_model(name, number)
            try:
                compare(c_operators, model, rng)
            except AssertionError as error:
                different += 1
                print(f"{name} {number}: {str(error).strip().splitlines()[0]}", flush=True)
    print(f"{len(chosen)} operators and types, {count} models each: {different} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
