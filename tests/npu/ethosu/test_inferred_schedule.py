"""The dataflow that is inferred from commands: an operand is what was last written to its place."""

import numpy as np

from deuteron.npu.ethosu.blob import Blob, Tensor
from deuteron.npu.ethosu.estimates import peak_bytes
from deuteron.npu.ethosu.inferred_schedule import traced
from deuteron.npu.ethosu.isa import CONFIGS
from deuteron.npu.ethosu.stream import FeatureMap, Operation, Stream
from deuteron.npu.schedule import Block

SIZE = 40


def feature_map(memory: str, offset: int, nbytes: int) -> FeatureMap:
    return FeatureMap(memory, offset, (1, 1, nbytes), "int8", in_bricks=False, zero_point=0)


def test_operands_are_what_was_last_written_to_their_places() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        blob = Blob(b"", b"", SIZE, (Tensor((7,), 1, 3), Tensor((9,), 1, 20)), ())
        written = {("scratch", at): f"input 0+{at - 3}" for at in range(3, 10)}
        written |= {("scratch", at): f"input 1+{at - 20}" for at in range(20, 29)}
        operations: list[Operation] = []
        wanted: list[str] = []
        for call in range(30):
            place, start, size = (int(v) for v in rng.integers((0, 0, 1), SIZE // 2))
            source, target = (("scratch", "fast")[rng.integers(2)] for _ in range(2))
            operations.append(Operation(0, "abs", (feature_map(source, place, 1),), feature_map(target, start, size)))
            wanted.append(written.get((source, place), f"{source}+{place}"))
            written |= {(target, start + i): f"result of call {call}+{i}" for i in range(size)}
        found = traced(blob, Stream(CONFIGS[0], 0, tuple(operations)))
        assert [operand for operand, _ in found.calls] == wanted


def test_the_peak_is_that_of_blocks_which_live_together() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        blocks = [
            Block("", 0, int(nbytes), int(first), int(first + length))
            for nbytes, first, length in rng.integers((1, 0, 0), (20, 15, 6), (int(rng.integers(1, 9)), 3))
        ]
        assert peak_bytes(blocks) == max(
            sum(block.nbytes for block in blocks if block.first <= at <= block.last) for at in range(25)
        )
    assert peak_bytes([]) == 0
