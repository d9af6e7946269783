"""A TFLite file as a program: converted if it is not yet, then run by the driver on this machine, without torch."""

import math
import mmap
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deuteron.arch import targets
from deuteron.arch.memory import MemoryOptions
from deuteron.builds.manifest import TensorInfo
from deuteron.builds.options import TfliteOptions
from deuteron.errors import FormatError, InputError, InternalError, OptionError, UnsupportedError, unreadable
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import HEADER_WORDS, WORD_BYTES
from deuteron.npu.neutron.microcode.layout import parse_header
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.npu.neutron.tflite.float_edges import find_edges
from deuteron.npu.neutron.tflite_partitioner import Mixed, Part, convert_most
from deuteron.runtime import vela
from deuteron.runtime.driver import Driver
from deuteron.runtime.tflite_partitioned import MixedProgram
from deuteron.runtime.vela import VelaProgram
from deuteron.tflite.control_flow import other_signatures, selected, unfolded
from deuteron.tflite.cortex_m.dead_channels import RemovedChannels, without_dead_channels
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import Buffer, FlatModel, FlatTensor, State
from deuteron.tflite.normalize import normalized, with_shapes, with_unique_names
from deuteron.tflite.quantization import Quant
from deuteron.tflite.unsigned import is_unsigned, signed
from deuteron.tflite.variables import resolved
from deuteron.tflite.weight_decoding import with_decoded_weights

Array = npt.NDArray[np.generic]
F32 = npt.NDArray[np.float32]


_LARGE = 1 << 28
"""Bytes from which on a file is not read as a whole."""


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """A TFLite file that the driver can run.

    Attributes:
        source: the file as it was read.
        inputs: the file's inputs, float32 where the file quantizes them itself.
        outputs: the file's outputs.
        container: the driver's program; None when the model computes nothing.
        conversion: the compiler's result, None for a file that was converted before.
        vela: Vela's result for an Ethos-U, None for a file that it has not compiled.
        mixed: the compiler's result for a file with operators for the CPU too, None for others.
        program: runs a converted file that also has operators for the CPU, None for others.
        states: the file's variables, whose values before and after a run are the last inputs and outputs.
    """

    source: Buffer
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    container: Container | None
    conversion: Conversion | None
    _inner: tuple[tuple[FlatTensor, ...], tuple[FlatTensor, ...]]
    vela: VelaProgram | None = None
    mixed: Mixed | None = None
    program: MixedProgram | None = None
    states: tuple[State, ...] = ()

    @property
    def initial(self) -> list[Array]:
        """The values of the variables before the first run."""
        ends = self.inputs[len(self.inputs) - len(self.states) :]
        values = zip(self.states, ends, strict=True)
        return [np.frombuffer(state.initial, info.dtype).reshape(info.shape) for state, info in values]

    @property
    def stored(self) -> tuple[tuple[FlatTensor, ...], tuple[FlatTensor, ...]]:
        """The inputs and the outputs of the graph inside the float edges."""
        return self._inner

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for one array per input of the file."""
        if self.program is not None:
            return self.program.run(inputs)
        results = self.run_stored(self.stored_inputs(inputs))
        return [_outer(y, info, tensor) for y, info, tensor in zip(results, self.outputs, self._inner[1], strict=True)]

    def run_stored(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the stored outputs of the graph inside the float edges, for its stored inputs."""
        if self.vela is not None:
            outputs = self.vela.run(inputs)
        elif self.container is not None:
            outputs = Driver().run(self.container, [x.tobytes() for x in inputs])
        elif self.conversion is not None:  # each output is an input under another name
            graph = self.conversion.graph
            values = interpret.run(graph, [x.astype(np.int8, copy=False) for x in inputs])
            outputs = [values[name].tobytes() for name in graph.outputs]
        else:
            raise InternalError("a converted file without microcode")
        return [
            np.frombuffer(data, _dtype(tensor)).reshape(tensor.shape)
            for data, tensor in zip(outputs, self._inner[1], strict=True)
        ]

    def stored_inputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Quantize one array per input of the file, where the file starts with QUANTIZE."""
        return [_stored(x, info, t) for x, info, t in zip(inputs, self.inputs, self._inner[0], strict=True)]


def load(
    path: Path,
    target: str | targets.Arch,
    options: ConvertOptions = ConvertOptions(),
    tflite: TfliteOptions = TfliteOptions(),
) -> TfliteModel:
    """The file at `path`, converted for `target` unless it has been already.

    Raises:
        InputError: there is no such file.
        FormatError: it is no TFLite file, or damaged.
        UnsupportedError: it holds no operator that the NPU takes, or some that Vela left to the CPU; all are named.
    """
    data = read(path)
    with told_where(path):
        model = decode(data, partial=True)
        if neutron_graph.is_mixed(model) or neutron_graph.is_converted(model) or vela.is_compiled(model):
            check_compiled(tflite)
        if neutron_graph.is_mixed(model):
            return replace(_loaded(data, model, None, None), program=MixedProgram(data))
        if neutron_graph.is_converted(model):
            container, _ = neutron_graph.unwrap(data)
            _check_sizes(container.microcode, _inner(model))
            return _loaded(data, model, container, None)
        if vela.is_compiled(model):
            program = vela.program_of(model)
            program.check()
            return replace(_loaded(data, model, None, None), vela=program)
        prepared = prepare(data, tflite)
        data = prepared.portable
        model = decode(data, partial=True)
        conversion = convert_most(data, target, options)
        if isinstance(conversion, Mixed):
            program = MixedProgram(conversion.converted)
            made = replace(_loaded(data, model, None, None), mixed=conversion, program=program)
        else:
            made = _loaded(data, model, conversion.container, conversion)
        return replace(made, states=prepared.model.states)


def check_compiled(options: TfliteOptions, memory: MemoryOptions = MemoryOptions()) -> None:
    """Raise OptionError for options that a compiled file does not take."""
    if options.shapes or options.signature is not None:
        message = "`--shape` and `--signature` are for files that are not compiled yet"
        raise OptionError(message, hint="give the file that it was made from, or leave them out")
    for option in fields(memory):
        if getattr(memory, option.name) != option.default:
            message = f"`--{option.name.replace('_', '-')}` is for files that are not compiled yet"
            raise OptionError(message, hint="give the file that it was made from, or leave it out")


def has_c_operators(target: str) -> bool:
    """Return True if the CPU of a target runs a TFLite file's operators by the firmware's C operators."""
    arch = targets.load(target)
    is_neutron = isinstance(arch.npu, targets.Neutron)
    return not is_neutron or arch.cpu.operators is targets.CpuOperators.CORTEX_M


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file in the form that C operators take.

    Attributes:
        model: as values, all of its unsigned tensors as int8.
        source: as a file, unsigned tensors as they are: LiteRT computes the same with it as with the file given.
        notes: sentences about what was found.
        removed: channels of the file's layers that the model does not have.
    """

    model: FlatModel
    source: Buffer
    notes: tuple[str, ...]
    removed: tuple[RemovedChannels, ...]
    is_unsigned: bool = False

    @property
    def file(self) -> Buffer:
        """The model as a file, for compilers that take one."""
        return encode(self.model) if self.is_unsigned or self.removed else self.source

    @property
    def portable(self) -> Buffer:
        """The same with unsigned tensors as they are, and all channels of a file that has such tensors."""
        return self.source if self.is_unsigned else self.file


def prepare(source: Buffer, options: TfliteOptions = TfliteOptions()) -> Prepared:
    """Return a file in that form; errors as of `normalized`, and UnsupportedError for one that is compiled already."""
    model = with_decoded_weights(selected(source, options.signature))
    if neutron_graph.is_converted(model) or vela.is_compiled(model):
        message, hint = "the file has been converted or compiled already", "give the file that it was made from"
        raise UnsupportedError(message, hint=hint)
    found = resolved(source, unfolded(source, with_shapes(model, options.shapes)))
    made = normalized(source, with_unique_names(found.model))
    inner, removed = signed(made.model), tuple[RemovedChannels, ...]()
    if not options.keep_dead_channels and made.can_be_written:
        inner, removed = without_dead_channels(inner)
    others = other_signatures(source, options.signature)
    notes = (*((others,) if others else ()), *found.notes, *made.notes)
    return Prepared(inner, made.source, notes, removed, is_unsigned(made.model))


def load_part(part: Part) -> TfliteModel:
    """The model of one partition of a file."""
    return _loaded(part.source, decode(part.source), part.conversion.container, part.conversion)


def read(path: Path) -> Buffer:
    """Return the bytes of the file; a large file is memory-mapped."""
    try:
        if path.suffix == ".py":
            raise is_python(path)
        if path.stat().st_size < _LARGE:
            return path.read_bytes()
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise unreadable(path, error) from error


def is_python(path: Path) -> InputError:
    """Return the error for a Python file where a TFLite file belongs."""
    return InputError(
        f"`{path}` is a Python file, not a TFLite model",
        hint=f"build it first: `deuteron build {path}:FUNCTION -o DIR`",
    )


@contextmanager
def told_where(path: Path) -> Generator[None]:
    """Add the file to errors about its content that name no place."""
    try:
        yield
    except (FormatError, UnsupportedError) as error:
        if error.where:
            raise
        raise type(error)(error.message, hint=error.hint, where=f"`{path}`") from error


def _loaded(data: Buffer, model: FlatModel, container: Container | None, conversion: Conversion | None) -> TfliteModel:
    inputs, outputs = infos(model, model.inputs), infos(model, model.outputs)
    return TfliteModel(data, inputs, outputs, container, conversion, _inner(model))


def _inner(model: FlatModel) -> tuple[tuple[FlatTensor, ...], tuple[FlatTensor, ...]]:
    """The inputs and outputs of the graph inside the float edges."""
    edges = find_edges(model)
    return tuple(model.tensors[i] for i in edges.inputs), tuple(model.tensors[i] for i in edges.outputs)


def _check_sizes(microcode: bytes, sides: tuple[tuple[FlatTensor, ...], tuple[FlatTensor, ...]]) -> None:
    """Check the file's inputs and outputs against the microcode's; the driver refuses microcode that is too short."""
    head = HEADER_WORDS * WORD_BYTES
    if len(microcode) < head:
        return
    header = parse_header(struct.unpack_from(f"<{HEADER_WORDS}I", microcode))
    counts = header.inputs, header.outputs
    if len(microcode) < head + sum(counts) * WORD_BYTES:
        return
    sizes = struct.unpack_from(f"<{sum(counts)}I", microcode, head)
    for side, tensors, wanted in zip(("input", "output"), sides, (sizes[: counts[0]], sizes[counts[0] :]), strict=True):
        sizes_of_file = tuple(math.prod(tensor.shape) for tensor in tensors)
        if sizes_of_file != wanted:
            raise FormatError(
                f"the file's {side}s hold {_listed(sizes_of_file)} bytes, those of its microcode {_listed(wanted)}",
                hint="the file is damaged: convert the model again",
            )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def infos(model: FlatModel, indices: tuple[int, ...]) -> tuple[TensorInfo, ...]:
    """Describe these tensors for a manifest."""
    tensors = (model.tensors[index] for index in indices)
    return tuple(TensorInfo(t.shape, t.dtype.lower(), t.name) for t in tensors)


def _dtype(tensor: FlatTensor) -> np.dtype[np.generic]:
    """numpy's dtype of a tensor, which has the same name."""
    return np.dtype(tensor.dtype.lower())


def _stored(x: Array, info: TensorInfo, tensor: FlatTensor) -> Array:
    """`x` as TFLite's QUANTIZE stores it, halves away from zero; as it is where there is none."""
    dtype = _dtype(tensor)
    if info.dtype == dtype.name:
        return x.astype(dtype)
    real: F32 = x.astype(np.float32)
    if not np.isfinite(real).all():
        raise InputError(f"input `{info.name}` holds NaN or infinite values; they cannot be quantized")
    quant = _quant(tensor)
    steps = (real / np.float32(quant.scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    limits = np.iinfo(dtype.name)
    return np.clip(rounded + quant.zero_point, limits.min, limits.max).astype(dtype)


def _outer(y: Array, info: TensorInfo, tensor: FlatTensor) -> Array:
    """`y` as TFLite's DEQUANTIZE gives it; as it is where there is none."""
    if info.dtype == _dtype(tensor).name:
        return y
    quant = _quant(tensor)
    return (y.astype(np.int64) - quant.zero_point).astype(np.float32) * np.float32(quant.scale)


def _quant(tensor: FlatTensor) -> Quant:
    if tensor.quant is None:
        raise InputError(f"tensor `{tensor.name}` has no quantization")
    return tensor.quant
