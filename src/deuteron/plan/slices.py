"""Kernel calls cut along their filters, so that their weights can be fetched piece by piece.

A piece of a convolution writes its channels of every output position. Pieces of a fully connected layer have no pitch
between rows, so that one with several rows stays whole.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from deuteron.kernels.limits import ALIGNMENT, REQUANT_ROW_BYTES, round_up
from deuteron.kernels.params import Conv2DParams, FullyConnectedParams
from deuteron.kernels.program import Buffer, KernelCall, Program, Ref

_WEIGHTS, _BIAS, _REQUANT, _OUTPUT = 1, 2, 3, 4
"""Operands of both kernels that can be cut."""
_BIAS_BYTES = 4

Filtering = FullyConnectedParams | Conv2DParams


def cut(program: Program, most: int, whole: Collection[str] = ()) -> Program:
    """The program with each call that can be cut, and reads more than `most` bytes of weights, cut into such pieces.

    Args:
        program: the calls.
        most: bytes of weights of a piece, a little more where a piece has as few filters as can be.
        whole: names of weights whose calls are not cut.
    """
    data = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
    uses = Counter(ref.buffer for call in program.calls for ref in call.operands)
    calls: list[KernelCall] = []
    made: dict[str, bytes] = {}
    for call in program.calls:
        params = call.params
        own = all(ref.buffer in data and uses[ref.buffer] == 1 for ref in call.operands[_WEIGHTS:_OUTPUT])
        if (
            isinstance(params, FullyConnectedParams | Conv2DParams)
            and own
            and _divisible(params)
            and call.operands[_WEIGHTS].buffer not in whole
        ):
            pieces, constants = _cut(call, params, data, most)
            calls += pieces
            made |= constants
        else:
            calls.append(call)
    used = {ref.buffer for call in calls for ref in call.operands}
    named = {*used, *program.inputs, *program.outputs}
    kept = (buffer for buffer in program.buffers if buffer.name in named)
    added = (Buffer(name, len(content), content) for name, content in made.items())
    return replace(program, buffers=(*kept, *added), calls=tuple(calls))


def whole_name(name: str, uncut: Collection[str]) -> str:
    """The name, among those of the program before it was cut, of the constant that constant `name` is (part of)."""
    return name if name in uncut else name.rpartition("[")[0]


def _divisible(params: Filtering) -> bool:
    return isinstance(params, Conv2DParams) or params.rows == 1


def _cut(
    call: KernelCall, params: Filtering, data: dict[str, bytes], most: int
) -> tuple[list[KernelCall], dict[str, bytes]]:
    """The pieces of a call, and their constants by name; each piece starts at a multiple of the alignment."""
    count = params.out_features if isinstance(params, FullyConnectedParams) else params.out_c
    weights = call.operands[_WEIGHTS].nbytes // count
    step = max(ALIGNMENT, most // weights // ALIGNMENT * ALIGNMENT)
    if step >= count:
        return [call], {}
    step = round_up(-(-count // -(-count // step)))  # as many pieces, of about the same size
    per_filter = {_WEIGHTS: weights, _BIAS: _BIAS_BYTES}
    if params.requant_count == count:
        per_filter[_REQUANT] = REQUANT_ROW_BYTES
    calls: list[KernelCall] = []
    constants: dict[str, bytes] = {}
    for start in range(0, count, step):
        stop = min(count, start + step)
        operands = list(call.operands)
        for at, nbytes in per_filter.items():
            ref = call.operands[at]
            name = f"{ref.buffer}[{start}:{stop}]"
            low, high = ref.offset + start * nbytes, ref.offset + stop * nbytes
            constants[name] = data[ref.buffer][low:high]
            operands[at] = Ref(name, 0, high - low)
        output = call.operands[_OUTPUT]
        operands[_OUTPUT] = Ref(output.buffer, output.offset + start, output.nbytes - count + stop - start)
        narrowed = _narrowed(params, stop - start, per_channel=_REQUANT in per_filter)
        calls.append(replace(call, operands=tuple(operands), params=narrowed))
    return calls, constants


def _narrowed(params: Filtering, filters: int, *, per_channel: bool) -> Filtering:
    rows = filters if per_channel else 1
    if isinstance(params, FullyConnectedParams):
        return replace(params, out_features=filters, requant_count=rows)
    return replace(params, out_c=filters, requant_count=rows)
