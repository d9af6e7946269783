"""Encodes a program and its plan as microcode."""

import zlib
from collections.abc import Sequence

import numpy as np

from deuteron.errors import CapacityError
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.layout import HeaderFields, header_words
from deuteron.npu.neutron.microcode.plan_protocol import Planned
from deuteron.operators.limits import round_up
from deuteron.operators.program import KernelCall, Program
from deuteron.operators.transfers import Fetch, Transfer, Wait

_MAX_BYTES = 0xFFFFFFF0
"""Largest size of an input, an output or an area: the largest word that is a multiple of 16."""


def encode(program: Program, plan: Planned, profiling: bool = False) -> Container:
    """Return the container that runs `program` at the addresses of `plan`.

    Raises:
        CapacityError: the program has more tensors, commands or bytes than the format supports.
    """
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    _check_tensors(program)
    _check_bytes(program, plan)
    commands: list[int] = []
    for index, call in enumerate(program.calls):
        transfers = plan.transfers.get(index, ())
        commands += [word for transfer in transfers for word in _transfer(transfer)]
        commands += _call(call, plan)
    commands.append(_first_word(fmt.Opcode.END, 1))
    count = len(program.calls) + sum(map(len, plan.transfers.values())) + 1
    tensors = [sizes[name] for name in (*program.inputs, *program.outputs)]
    if plan.ends:
        tensors += [plan.ends.get(name, fmt.ELSEWHERE) for name in (*program.inputs, *program.outputs)]
    first_command = round_up((fmt.HEADER_WORDS + len(tensors)) * fmt.WORD_BYTES)
    nbytes = round_up(first_command + len(commands) * fmt.WORD_BYTES)
    if nbytes > fmt.MAX_MICROCODE_BYTES:
        raise CapacityError(f"the microcode takes {nbytes} bytes of {fmt.MAX_MICROCODE_BYTES}")
    header = HeaderFields(
        profiling=profiling,
        commands=count,
        microcode_bytes=nbytes,
        weights_bytes=len(plan.weights),
        weights_crc=zlib.crc32(plan.weights),
        scratch_bytes=plan.scratch_bytes,
        prefetch_bytes=plan.prefetch_bytes,
        resident_bytes=plan.resident_bytes,
        profile_bytes=fmt.PROFILE_RECORD_BYTES * count if profiling else 0,
        debug_bytes=0,
        inputs=len(program.inputs),
        outputs=len(program.outputs),
        first_command=first_command,
        minor=_minor(plan),
        has_places=bool(plan.ends),
    )
    words = np.zeros(nbytes // fmt.WORD_BYTES, "<u4")
    words[: fmt.HEADER_WORDS] = header_words(header)
    words[fmt.HEADER_WORDS : fmt.HEADER_WORDS + len(tensors)] = tensors
    at = first_command // fmt.WORD_BYTES
    words[at : at + len(commands)] = commands
    words[fmt.Header.CRC] = zlib.crc32(words.tobytes())
    return Container(words.tobytes(), plan.weights, _kernels_block(program.calls))


def _check_tensors(program: Program) -> None:
    for kind, names in (("inputs", program.inputs), ("outputs", program.outputs)):
        if len(names) > fmt.MAX_TENSORS:
            raise CapacityError(f"the partition has {len(names)} {kind}, the format takes {fmt.MAX_TENSORS}")


def _check_bytes(program: Program, plan: Planned) -> None:
    areas = {"the scratch area": plan.scratch_bytes, "the prefetch area": plan.prefetch_bytes}
    for what, nbytes in ({f"`{buffer.name}`": buffer.nbytes for buffer in program.buffers} | areas).items():
        if nbytes > _MAX_BYTES:
            raise CapacityError(f"{what} takes {nbytes} bytes, the format {_MAX_BYTES}", hint="split the model")


def _minor(plan: Planned) -> int:
    """Return the oldest minor version of the format with all features of the plan."""
    if plan.ends:
        return fmt.MINOR_OF_PLACES
    fetches = (step for steps in plan.transfers.values() for step in steps if isinstance(step, Fetch))
    return fmt.MINOR_OF_SCRATCH_FETCHES if any(fetch.region is fmt.Region.SCRATCH for fetch in fetches) else 0


def _call(call: KernelCall, plan: Planned) -> list[int]:
    words = [
        call.kernel.kind | len(call.operands) << 16 | call.params.word_count() << 24,
        call.origin[0] if call.origin else fmt.NO_ORIGIN,
    ]
    for ref in call.operands:
        place = plan.placements[ref.buffer]
        words += [place.region | place.index << 8, place.offset + ref.offset, ref.nbytes]
    words += [value & 0xFFFFFFFF for value in call.params.words()]
    return [_first_word(fmt.Opcode.CALL, len(words) + 1), *words]


def _transfer(transfer: Transfer) -> list[int]:
    match transfer:
        case Fetch():
            flag = fmt.FETCH_TO_SCRATCH if transfer.region is fmt.Region.SCRATCH else 0
            words = [transfer.channel | flag, transfer.source, transfer.target, transfer.nbytes]
            return [_first_word(fmt.Opcode.FETCH, 1 + len(words)), *words]
        case Wait():
            return [_first_word(fmt.Opcode.WAIT, 2), transfer.channel]


def _first_word(opcode: fmt.Opcode, length: int) -> int:
    return opcode | length << 16


def _kernels_block(calls: Sequence[KernelCall]) -> bytes:
    kinds = sorted({call.kernel.kind for call in calls})
    return np.array([len(kinds), *kinds], "<u4").tobytes()
