"""Partitions TFLite files between NPU and CPU: NPU partitions, and a file with the other operators unchanged."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

from deuteron.arch import targets
from deuteron.errors import CapacityError, UnsupportedError
from deuteron.npu.neutron.convert import VERSION_KEY, Conversion, ConvertOptions, Lowered, convert, lower_model
from deuteron.npu.neutron.kernels.catalogue import COPY
from deuteron.npu.neutron.kernels.selection import Selection
from deuteron.npu.neutron.partitions import Together
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.execution_order import check_order
from deuteron.tflite.flat_model import NO_TENSOR, Buffer, FlatModel, FlatTensor
from deuteron.tflite.rewrite import Custom, rewrite


@dataclass(frozen=True, slots=True)
class Part:
    """Operators that run on the NPU together.

    Attributes:
        operators: indices of its operators in the file.
        inputs: indices of its input tensors in the file.
        outputs: indices of its output tensors in the file.
        source: the operators as a TFLite file.
        conversion: result of the compiler.
    """

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    source: Buffer
    conversion: Conversion


@dataclass(frozen=True, slots=True)
class Mixed:
    """A file whose operators run partly on the NPU.

    Attributes:
        model: the file.
        steps: in execution order, NPU partitions, and indices of CPU operators.
        refused: the reason for each CPU operator, by index.
        converted: the file with a custom operator in place of each partition, and all other operators unchanged.
    """

    model: FlatModel
    steps: tuple[Part | int, ...]
    refused: dict[int, UnsupportedError]
    converted: bytes

    @property
    def parts(self) -> tuple[Part, ...]:
        """The NPU partitions."""
        return tuple(step for step in self.steps if isinstance(step, Part))

    @property
    def selection(self) -> Selection:
        """The kernels that all partitions call."""
        return Selection.of(call.kernel for part in self.parts for call in part.conversion.program.calls)


def convert_most(
    data: Buffer, target: str | targets.Arch, options: ConvertOptions = ConvertOptions()
) -> Conversion | Mixed:
    """Convert the whole TFLite file for the NPU if possible, otherwise a part of it.

    Raises:
        UnsupportedError: the NPU supports no operator of it; all operators are named.
    """
    try:
        return convert(data, target, options)
    except UnsupportedError:
        if (mixed := convert_mixed(data, target, options)) is None:
            raise
        return mixed


def convert_mixed(data: Buffer, target: str | targets.Arch, options: ConvertOptions = ConvertOptions()) -> Mixed | None:
    """Convert the supported operators of a TFLite file, in as few partitions as the order of the others allows.

    None if the NPU supports none.

    Raises:
        FormatError: the file is damaged.
        CapacityError: the partitions do not fit the memories together.
    """
    arch = targets.load(target) if isinstance(target, str) else target
    model = decode(data, partial=True)
    check_order(model)
    readers = _readers(model)
    refused = _refused(model, readers, arch, options)
    while True:
        groups = _groups(model, refused)
        alone = {place: _alone(model, readers, group) for place, group in groups.items()}
        lowered = {place: lower_model(inner, arch, options) for place, (inner, _, _) in alone.items()}
        idle = [i for place, group in groups.items() if _is_idle(lowered[place]) for i in group]
        if not idle:
            break
        # Partitions without work stay on the CPU; the others may then be merged.
        refused |= {i: UnsupportedError("it would be alone on the NPU, and changes no byte") for i in idle}
    if not groups:
        return None

    def placed(number: int, error: CapacityError) -> CapacityError:
        group = [*groups.values()][number]
        where = f"operators {group[0]} to {group[-1]} of the file" + (f", {error.where}" if error.where else "")
        return error.relocate(where)

    conversions = Together(tuple(lowered.values()), arch, options).within(options.memory, 0, placed)
    parts = {
        place: Part(groups[place], inputs, outputs, encode(inner), conversion)
        for (place, (inner, inputs, outputs)), conversion in zip(alone.items(), conversions, strict=True)
    }
    steps: list[Part | int] = []
    for place, rest in enumerate((*sorted(refused), None)):
        steps += [parts[place]] if place in parts else []
        steps += [] if rest is None else [rest]
    return Mixed(model, tuple(steps), refused, _written(data, steps))


def _readers(model: FlatModel) -> Mapping[int, Collection[int]]:
    """Return the operators that read each tensor."""
    readers: dict[int, set[int]] = {}
    for index, op in enumerate(model.operators):
        for tensor in op.inputs:
            readers.setdefault(tensor, set()).add(index)
    return readers


def _refused(
    model: FlatModel, readers: Mapping[int, Collection[int]], arch: targets.Arch, options: ConvertOptions
) -> dict[int, UnsupportedError]:
    """Return the reason for each operator that the NPU does not support."""
    refused: dict[int, UnsupportedError] = {}
    for index, op in enumerate(model.operators):
        tensors = [model.tensors[i] for i in (*op.inputs, *op.outputs) if i >= 0]
        inner, _, outputs = _alone(model, readers, (index,))
        try:
            if problem := next((problem for tensor in tensors if (problem := _problem(tensor))), ""):
                raise UnsupportedError(problem)
            if not outputs:
                raise UnsupportedError("nothing depends on it")
            lower_model(inner, arch, options)
        except UnsupportedError as error:
            refused[index] = error
    return refused


def _problem(tensor: FlatTensor) -> str:
    """Return the reason why operators of a tensor cannot run on the NPU, or an empty text."""
    is_other = not tensor.has_values and tensor.dtype != "INT8"
    return tensor.problem or (f"tensor `{tensor.name}` is {tensor.dtype}; INT8 is allowed" if is_other else "")


def _is_idle(lowered: Lowered) -> bool:
    """Return True if the partition only copies."""
    return lowered.empty or all(call.kernel is COPY for call in lowered.program.calls)


def _groups(model: FlatModel, refused: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Group the operators on the NPU by the number of CPU operators that run before them.

    An operator must run after the last CPU operator that it depends on, and before the first that depends on it.
    Greedy interval stabbing: the first group is at the latest place of the first operator, with all that may run there.
    """
    rest = sorted(refused)
    number = {index: i for i, index in enumerate(rest)}
    writers = {tensor: i for i, op in enumerate(model.operators) for tensor in op.outputs}
    earliest: dict[int, int] = {}
    latest: dict[int, int] = dict.fromkeys(range(len(model.operators)), len(rest))
    for i, op in enumerate(model.operators):
        before = [writers[tensor] for tensor in op.inputs if tensor in writers]
        earliest[i] = max((number[j] + 1 if j in number else earliest[j] for j in before), default=0)
    for i, op in reversed([*enumerate(model.operators)]):
        for tensor in op.inputs:
            if tensor in writers:
                latest[writers[tensor]] = min(latest[writers[tensor]], number.get(i, latest[i]))
    groups: dict[int, tuple[int, ...]] = {}
    left: list[int] = [i for i in range(len(model.operators)) if i not in number]
    while left:
        place = min(latest[i] for i in left)
        groups[place] = tuple(i for i in left if earliest[i] <= place)
        left = [i for i in left if earliest[i] > place]
    return groups


def _alone(
    model: FlatModel, readers: Mapping[int, Collection[int]], group: tuple[int, ...]
) -> tuple[FlatModel, tuple[int, ...], tuple[int, ...]]:
    """Return these operators as a separate model, with the indices of its inputs and outputs in the whole one."""
    inside = [model.operators[i] for i in group]
    written = {tensor for op in inside for tensor in op.outputs}
    operands = dict.fromkeys(tensor for op in inside for tensor in op.inputs if tensor >= 0)
    inputs = tuple(i for i in operands if i not in written and not model.tensors[i].has_values)
    own = {*group}
    outputs = tuple(
        i for op in inside for i in op.outputs if i in model.outputs or not own.issuperset(readers.get(i, ()))
    )
    places = {NO_TENSOR: NO_TENSOR} | {old: new for new, old in enumerate(dict.fromkeys((*operands, *written)))}
    moved = tuple(
        replace(op, inputs=tuple(places[i] for i in op.inputs), outputs=tuple(places[i] for i in op.outputs))
        for op in inside
    )
    tensors = tuple(model.tensors[i] for i in places if i >= 0)
    ends = tuple(places[i] for i in inputs), tuple(places[i] for i in outputs)
    return FlatModel(model.name, tensors, *ends, moved), inputs, outputs


def _written(data: Buffer, steps: Sequence[Part | int]) -> bytes:
    """Return the file with a custom operator in place of each partition."""
    operators: list[Custom | int] = []
    for step in steps:
        if isinstance(step, Part) and (container := step.conversion.container) is not None:
            around = neutron_graph.blocks(container), neutron_graph.areas(container)
            operators.append(Custom(neutron_graph.CUSTOM_CODE, step.inputs, step.outputs, *around))
        elif isinstance(step, int):
            operators.append(step)
    return rewrite(data, operators, metadata={VERSION_KEY: version("deuteron").encode()})
