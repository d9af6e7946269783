"""Random calls of the operators on the emulated cores, each with its own inner work: the host's bytes.

Behind each value of a call stands memory that may not even be read. The layers are tested so in `test_layers.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from benches import cortex_m
from tests import full
from tests.board.port_images import START, build, generate, run
from tests.cortex_m import elementwise_calls, test_custom_ops
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, library
from deuteron.board.bundle import MEMORY_CONSTANT, Bundle
from deuteron.frontend.cortex_m import upstream
from deuteron.operators.cortex_m import BY_OPERATOR

pytestmark = pytest.mark.slow

SLOT_BYTES = 12 * 1024
"""`DTN_SLOT_BYTES`: calls with larger values are left out."""

LEAST = 300
"""Calls that are left, some of each operator."""

TIMES = 4
"""Random calls of each operator that Deuteron adds."""


def calls() -> Iterator[elementwise_calls.Call]:
    """Calls of elementwise and window operators, and of each operator that Deuteron adds."""
    yield from elementwise_calls.calls(1)
    for name, case in test_custom_ops.CASES.items():
        for i in range(TIMES):
            params, inputs, output = case(np.random.default_rng([2, i]))
            yield elementwise_calls.Call(f"dtn_cm_{name}", inputs, params, output)


def expecting(bundle: Bundle, expected: Sequence[bytes]) -> Bundle:
    """The bundle with what its outputs must be as more outputs."""
    first, count = MEMORY_CONSTANT + len(bundle.constants), len(bundle.values)
    values = [replace(bundle.values[output], memory=first + i, offset=0) for i, output in enumerate(bundle.outputs)]
    outputs = (*bundle.outputs, *range(count, count + len(values)))
    constants = (*bundle.constants, *expected)
    return replace(bundle, values=(*bundle.values, *values), outputs=outputs, constants=constants)


@pytest.mark.parametrize("board", full.only(boards.names(), "an505", "an547"))
def test_random_calls_give_the_hosts_bytes_and_stay_within_their_values(board: str) -> None:
    upstream.load()
    c_operators, maker, expected = OperatorLibrary(InnerWork.PORTABLE), cortex_m.Maker(), list[bytes]()
    operators = dict[str, int]()
    for call in calls():
        operators.setdefault(call.operator, 0)
        if max(array.nbytes for array in (*call.inputs, call.output)) > SLOT_BYTES:
            continue
        symbol = BY_OPERATOR[call.operator].symbol if call.operator in BY_OPERATOR else call.operator
        scratch = call.scratch[0] if call.scratch else None
        maker.add(cortex_m.Call(symbol, call.inputs, call.params, scratch, call.output, 0), call.operator)
        operators[call.operator] += 1
        expected.append(c_operators.run(call.operator, call.inputs, call.params, call.output, call.scratch).tobytes())
    assert len(expected) >= LEAST
    assert all(operators.values())
    machine, name = boards.load(board), f"steps-{board}"
    sources = (*START, "tests/board/steps.c", *generate(expecting(maker.bundle(), expected), name))
    done = run(machine, build(machine, name, sources, archived=library.core(machine)))
    assert (done.status, done.output) == (0, f"right {len(expected)}\n")
