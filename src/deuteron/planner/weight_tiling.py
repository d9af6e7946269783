"""Weight tiling: splits kernel calls along their filters, so that weights can be fetched piece by piece.

A piece of a convolution writes its channels of every output position. A fully connected layer with several rows stays
whole, because its kernel has no pitch between rows. A call whose weights another call reads stays whole, too.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from deuteron.operators.kernel_params import Conv2DParams, FullyConnectedParams
from deuteron.operators.limits import ALIGNMENT, REQUANT_ROW_BYTES, round_up
from deuteron.operators.program import Buffer, KernelCall, Program, Ref

_WEIGHTS, _BIAS, _REQUANT, _OUTPUT = 1, 2, 3, 4
"""Operand numbers of the kernels that can be tiled."""
_BIAS_BYTES = 4

Filtering = FullyConnectedParams | Conv2DParams


@dataclass(frozen=True, slots=True)
class Pieces:
    """A program with tiled calls.

    Attributes:
        program: the pieces.
        calls: for each piece the index of the original call.
        whole: for each new constant the original one that it is a part of.
    """

    program: Program
    calls: tuple[int, ...]
    whole: Mapping[str, str]


def unshare_constants(program: Program) -> Program:
    """Return the program with a separate copy of shared constants for each call, except filters; stripes share copies.

    Zero biases, equal factors and tables are shared. A shared constant would occupy memory from its first to its last
    call, with everything that is fetched with it. A copy costs some bytes of flash.
    """
    shared = _Constants(program)
    readers: dict[str, object] = {}
    copies: dict[tuple[object, Ref], Ref] = {}
    calls: list[KernelCall] = []
    for number, call in enumerate(program.calls):
        operands = list(call.operands)
        reader = number if call.stripe is None else (call.stripe.cascade, call.stripe.call)
        for at, ref in enumerate(operands):
            filters = isinstance(call.params, Filtering) and at == _WEIGHTS
            if readers.setdefault(ref.buffer, reader) != reader and ref.buffer in shared.data and not filters:
                if (reader, ref) not in copies:
                    copies[reader, ref] = shared.part(ref, ref.buffer)
                operands[at] = copies[reader, ref]
        calls.append(replace(call, operands=tuple(operands)))
    return replace(program, buffers=(*program.buffers, *shared.made), calls=tuple(calls))


def tile(program: Program, most: int | Sequence[int], whole: Collection[str] = ()) -> Pieces:
    """Tile each call that can be tiled and reads more than `most` bytes of weights.

    Args:
        program: the calls.
        most: bytes of weights of a piece, for all calls or for each; exceeded if a piece has the smallest number of
            filters.
        whole: names of weights whose calls are not tiled.
    """
    constants = _Constants(program)
    uses = Counter(ref.buffer for call in program.calls for ref in call.operands)
    calls: list[KernelCall] = []
    numbers: list[int] = []
    for at, call in enumerate(program.calls):
        params, parts = call.params, [call]
        if isinstance(params, Filtering) and _divisible(params) and _owned(call, constants.data, uses, whole):
            parts = _tile(call, params, constants, most if isinstance(most, int) else most[at])
        calls += parts
        numbers += [at] * len(parts)
    used = {ref.buffer for call in calls for ref in call.operands}
    named = {*used, *program.inputs, *program.outputs}
    kept = (buffer for buffer in program.buffers if buffer.name in named)
    pieces = replace(program, buffers=(*kept, *constants.made), calls=tuple(calls))
    return Pieces(pieces, tuple(numbers), constants.origins)


class _Constants:
    """The constants of a program, and new parts of them with unique names."""

    def __init__(self, program: Program) -> None:
        self.data = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
        self.made: list[Buffer] = []
        self.origins: dict[str, str] = {}
        self._taken = {buffer.name for buffer in program.buffers}

    def part(self, ref: Ref, wanted: str) -> Ref:
        """Add a constant with these bytes, named `wanted` if that is unused."""
        name = wanted
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        self.made.append(Buffer(name, ref.nbytes, self.data[ref.buffer][ref.offset : ref.offset + ref.nbytes]))
        self.origins[name] = ref.buffer
        return Ref(name, 0, ref.nbytes)


def _divisible(params: Filtering) -> bool:
    return isinstance(params, Conv2DParams) or params.rows == 1


def _owned(call: KernelCall, data: Mapping[str, bytes], uses: Mapping[str, int], whole: Collection[str]) -> bool:
    """Return True if the call alone reads its weights, and these are constants that may be tiled."""
    weights = call.operands[_WEIGHTS].buffer
    constant = all(ref.buffer in data for ref in call.operands[_WEIGHTS:_OUTPUT])
    return constant and uses[weights] == 1 and weights not in whole


def _tile(call: KernelCall, params: Filtering, constants: _Constants, most: int) -> list[KernelCall]:
    """Return the pieces of a call with separate constants; each starts at a multiple of the alignment."""
    count = params.out_features if isinstance(params, FullyConnectedParams) else params.out_c
    weights = call.operands[_WEIGHTS].nbytes // count
    step = max(ALIGNMENT, most // weights // ALIGNMENT * ALIGNMENT)
    if step >= count:
        return [call]
    step = round_up(-(-count // -(-count // step)))  # the same number of pieces, of about equal size
    per_channel = params.requant_count == count
    per_filter = {_WEIGHTS: weights, _BIAS: _BIAS_BYTES, _REQUANT: REQUANT_ROW_BYTES if per_channel else 0}
    calls: list[KernelCall] = []
    for start in range(0, count, step):
        stop = min(count, start + step)
        operands = list(call.operands)
        for at, nbytes in per_filter.items():
            ref = operands[at]
            part = Ref(ref.buffer, ref.offset + start * nbytes, (stop - start) * nbytes or ref.nbytes)
            operands[at] = constants.part(part, f"{ref.buffer}[{start}:{stop}]")
        output = operands[_OUTPUT]
        operands[_OUTPUT] = Ref(output.buffer, output.offset + start, output.nbytes - count + stop - start)
        calls.append(replace(call, operands=tuple(operands), params=_call_for_rows(params, stop - start, per_channel)))
    return calls


def _call_for_rows(params: Filtering, filters: int, per_channel: bool) -> Filtering:
    rows = filters if per_channel else 1
    if isinstance(params, FullyConnectedParams):
        return replace(params, out_features=filters, requant_count=rows)
    return replace(params, out_c=filters, requant_count=rows)
