"""Write the generated headers of `firmware/include/deuteron/` from the Python definitions.

`microcode.h` has the microcode and the kernels, `cortex_m.h` the Cortex-M operators, and `custom_ops.h` Deuteron's own.
`aten.h` has those of ExecuTorch's portable kernels, `tflite.h` those with TFLite's arithmetic, `version.h` the release.
`operator_outputs.h` of `firmware/executorch/runner/` says which arguments operators write. Run without arguments to
write them, with `--check` to fail when a committed one is stale.
"""

import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, IntFlag
from pathlib import Path

from deuteron import __version__
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.operators.cortex_m import CPU_OPERATORS, CpuOperator
from deuteron.operators.custom_ops import ADDED, FORMER_NAMES, NAMESPACE
from deuteron.operators.kernel_params import BinaryParams, KernelParams, LutParams
from deuteron.operators.portable import ATEN_OPERATORS
from deuteron.operators.program import Kernel
from deuteron.operators.tflite import TFLITE_OPERATORS
from deuteron.operators.tflite_signal import SIGNAL_OPERATORS
from deuteron.operators.tflite_unquantized import UNQUANTIZED_OPERATORS
from deuteron.runtime.operator_outputs import OUTPUTS, VIEW

INCLUDE = Path(__file__).parent.parent / "firmware" / "include" / "deuteron"
RUNNER = Path(__file__).parent.parent / "firmware" / "executorch" / "runner"

CONSTANTS: tuple[tuple[str, str], ...] = (
    ("MAGIC", "first word: any Neutron microcode"),
    ("DEUTERON_MAGIC", "second word: ours"),
    ("VERSION_MAJOR", "the only major version that the driver takes"),
    ("VERSION_MINOR", "the newest minor version that it takes"),
    ("HEADER_WORDS", "words before the tensor size table"),
    ("WORD_BYTES", "bytes per word"),
    ("ALIGNMENT", "bytes: start of blocks and constants, sizes in the header"),
    ("MAX_MICROCODE_BYTES", "largest microcode block"),
    ("MIN_WEIGHTS_BYTES", "smallest weights block"),
    ("MAX_TENSORS", "most inputs, and most outputs"),
    ("MAX_DIMENSION", "largest dimension, kernel size, stride and dilation of windowed kernels"),
    ("MAX_REDUCTION", "most elements under one sum"),
    ("MAX_MEAN_SHIFT", "largest shift before a division by a count, and log2 of the largest divisor"),
    ("MAX_MATMUL_DEPTH", "most products in one sum of a matrix product"),
    ("MAX_RESIZE_UNIT", "largest start (either sign), step and unit of a resize"),
    ("CHANNELS", "number of fetch channels"),
    ("OPERAND_WORDS", "words per operand"),
    ("REQUANT_ROW_BYTES", "bytes per requantization row"),
    ("LUT_BYTES", "bytes of a lut_s8 table"),
    ("SOFTMAX_TABLE_BYTES", "bytes of a softmax_s8 table"),
    ("MINOR_OF_SCRATCH_FETCHES", "the first minor version that can fetch weights to scratch"),
    ("MINOR_OF_PLACES", "the first minor version whose inputs and outputs may have places in scratch"),
    ("ELSEWHERE", "in the table of places: an input or output that does not lie in scratch"),
    ("FETCH_TO_SCRATCH", "bit next to the channel of a fetch whose target is in scratch"),
    ("PROFILE_RECORD_BYTES", "bytes per profile record"),
)
ENUMS: tuple[tuple[str, type[IntEnum] | type[IntFlag]], ...] = (
    ("HEADER", fmt.Header),
    ("LAYOUT_A", fmt.LayoutA),
    ("LAYOUT_B", fmt.LayoutB),
    ("FLAG", fmt.Flag),
    ("OPCODE", fmt.Opcode),
    ("REGION", fmt.Region),
)
CHECKED = ("requant", "table")
"""Operands whose content a kernel's check reads; `lut_s8` takes any table."""
ALIGNED = (*CHECKED, "bias", "workspace")
"""Operands that kernels read as words, so that they cannot be in a caller's buffer, which has any alignment."""
IN_PLACE = ((BinaryParams, ("a", "b")), (LutParams, ("input",)))
"""Operands whose bytes the output may have (spec/microcode.md section 4)."""


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (text or "").strip().splitlines()[0]


def mask(kernel: Kernel, names: tuple[str, ...]) -> str:
    """Bit mask of the operands of `kernel` that are among `names`, as a C literal."""
    return f"0x{sum(1 << i for i, name in enumerate(kernel.operands) if name in names):X}U"


def constants() -> Iterator[str]:
    """Lines of the plain constants."""
    for name, meaning in CONSTANTS:
        value: int = getattr(fmt, name)
        literal = f"UINT32_C(0x{value:08X})" if value >= 1 << 24 else f"UINT32_C({value})"
        prefix = "DTN_MICROCODE_" if name.startswith("VERSION_") else "DTN_"
        yield f"#define {prefix}{name} {literal} /**< {meaning} */"


def enums() -> Iterator[str]:
    """Lines of the enumerations of `format.py`."""
    for prefix, enum in ENUMS:
        yield f"/** {first_line(enum.__doc__)} */"
        yield "enum {"
        yield from (f"    DTN_{prefix}_{member.name} = {member.value}," for member in enum)
        yield "};"
        yield ""


def kernel_kinds() -> Iterator[str]:
    """Lines of the kernel numbers and of the table of signatures."""
    yield "/** Kernels by their number in a call; numbers are never reused. */"
    yield "typedef enum {"
    yield from (f"    DTN_KERNEL_{k.name.upper()} = {k.kind}," for k in KERNELS)
    yield "} dtn_kernel_kind_t;"
    yield ""
    yield "/** Length of a table indexed by kernel number; number 0 is not used. */"
    yield f"#define DTN_KERNEL_KINDS {max(k.kind for k in KERNELS) + 1}"
    yield ""
    yield "/** Most operands of any kernel. */"
    yield f"#define DTN_MAX_OPERANDS {max(len(k.operands) for k in KERNELS)}"
    yield ""
    yield "/**"
    yield " * One row per kernel: X(name, NAME, read, written, words, checked, aligned, in_place)."
    yield " *"
    yield " * `read` operands come first, then `written` ones; `words` parameter words follow. Masks have a bit per"
    yield " * operand: `checked` if the kernel's check reads its content, `aligned` if it may not be an input or"
    yield " * output, `in_place` if the output may have its bytes."
    yield " */"
    rows: list[str] = []
    for k in KERNELS:
        written = len(k.operands) - len(k.reads)
        bytewise = k.name == "lut_s8"
        masks = (mask(k, () if bytewise else CHECKED), mask(k, () if bytewise else ALIGNED))
        shape = f"{len(k.reads)}, {written}, {k.params.word_count()}, {', '.join(masks)}"
        in_place = next((names for kind, names in IN_PLACE if issubclass(k.params, kind)), ())
        rows.append(f"    X({k.name}, {k.name.upper()}, {shape}, {mask(k, in_place)})")
    yield "#define DTN_KERNELS(X) \\"
    yield " \\\n".join(rows)
    yield ""


def kernel_records() -> Iterator[str]:
    """Lines of the operand indices and the parameter record of each kernel."""
    for k in KERNELS:
        yield f"/** Operands of {k.name}. */"
        yield "enum {"
        yield from (f"    DTN_{k.name.upper()}_{name.upper()} = {i}," for i, name in enumerate(k.operands))
        yield "};"
        yield ""
        yield f"/** {first_line(k.params.__doc__)} */"
        yield from record(k.params, f"dtn_{k.name}_params_t")


def record(params: type[KernelParams], name: str) -> Iterator[str]:
    """Lines of a parameter record as a structure."""
    yield "typedef struct {"
    for field, count in params.field_words():
        yield f"    int32_t {field}{f'[{count}]' if count > 1 else ''};"
    yield f"}} {name};"
    yield ""


def microcode() -> str:
    """The text of `microcode.h`."""
    lines = [
        "/**",
        " * @file",
        " * Numbers of the microcode and parameter records of the kernels; spec/microcode.md is the contract.",
        " *",
        " * Generated by tools/gen_headers.py from microcode/ and kernels/ of src/deuteron/npu/neutron/; do not edit.",
        " */",
        "#ifndef DEUTERON_MICROCODE_H",
        "#define DEUTERON_MICROCODE_H",
        "",
        "#include <stdint.h>",
        "",
        "/* clang-format off */",
        "",
        *constants(),
        "",
        *enums(),
        *kernel_kinds(),
        *kernel_records(),
        "/* clang-format on */",
        "",
        "#endif /* DEUTERON_MICROCODE_H */",
    ]
    return "\n".join(lines) + "\n"


def cpu_operator(operator: CpuOperator, named: dict[type[KernelParams], str]) -> Iterator[str]:
    """Lines of one CPU operator; `named` has the structures of the records so far."""
    prefix = operator.symbol.upper()
    yield f"/* {operator.name} */"
    yield ""
    yield "enum {"
    yield from (f"    {prefix}_{name.upper()} = {i}," for i, name in enumerate(operator.inputs))
    if not operator.optional:
        written = (*operator.scratch, *operator.state, "output")
        yield from (f"    {prefix}_{name.upper()} = {i}," for i, name in enumerate(written, len(operator.inputs)))
    yield "};"
    yield ""
    name = f"{operator.symbol}_params_t"
    if operator.params in named:
        yield f"typedef {named[operator.params]} {name};"
        yield ""
    else:
        yield from record(operator.params, name)
        named[operator.params] = name
    yield "/**"
    for line in comment(operator):
        yield f" * {line}".rstrip()
    yield " */"
    yield f"int32_t {operator.symbol}(const dtn_operator_call_t *call, dtn_phase_t phase);"
    yield ""


def comment(operator: CpuOperator) -> Iterator[str]:
    """The result of the function, then its values in order."""
    yield from (line.strip() for line in (operator.params.__doc__ or "").strip().splitlines())
    optional = (f"{name} if has_{name}" for name in operator.optional)
    values = [*operator.inputs, *optional, *operator.scratch, *operator.state, "output"]
    yield ""
    yield from textwrap.wrap(f"Values: {', '.join(values)}.", 116)


def cpu_operators(
    guard: str,
    about: Sequence[str],
    operators: Sequence[CpuOperator],
    named: dict[type[KernelParams], str],
    after: Sequence[str] = (),
    included: Sequence[str] = ("bundle",),
) -> str:
    """The text of a header of CPU operators, which includes others, with the lines `after` behind them."""
    lines = [
        "/**",
        " * @file",
        *(f" * {line}".rstrip() for line in about),
        " *",
        " * A family of operators has one header, so that generated bundles include one file per family.",
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *(f'#include "deuteron/{name}.h"' for name in included),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* clang-format off */",
        "",
        *(line for operator in operators for line in cpu_operator(operator, named)),
        *after,
        "/* clang-format on */",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {guard} */",
    ]
    return "\n".join(lines) + "\n"


def cortex_m() -> str:
    """The text of `cortex_m.h`."""
    about = (
        "The operators of ExecuTorch's Cortex-M backend: values and parameter record of each. custom_ops.h has those",
        "that Deuteron adds.",
        "",
        "Each is a CPU operator of bundles (deuteron/bundle.h); its parameter words are the record. Optional inputs",
        "follow the others, then the written values: scratch memory and the output.",
        "spec/rounding.md section 6 says how they round.",
        "",
        "Generated by tools/gen_headers.py from src/deuteron/operators/cortex_m.py; do not edit.",
    )
    return cpu_operators(
        "DEUTERON_CORTEX_M_H", about, CPU_OPERATORS, _kernel_records(), included=("bundle", "custom_ops")
    )


def _kernel_records() -> dict[type[KernelParams], str]:
    """The structures of kernels' records."""
    return {k.params: f"dtn_{k.name}_params_t" for k in KERNELS}


def custom_ops() -> str:
    """The text of `custom_ops.h`."""
    about = (
        "The operators that Deuteron adds to ExecuTorch's Cortex-M backend: values and parameter record of each;",
        "cortex_m.h has those of the backend.",
        "",
        "Generated by tools/gen_headers.py from the records in src/deuteron/operators/; do not edit.",
    )
    counts = {operator.name: f"{len(operator.inputs)}, {len(operator.scratch) + 1}" for operator in ADDED}
    rows = (
        f"/** One row per operator of the namespace `{NAMESPACE}`, which Deuteron adds: X(name, inputs, outputs). */",
        "#define DTN_CM_ADDED(X) \\",
        " \\\n".join(f"    X({name}, {count})" for name, count in counts.items()),
        "",
        "/** Names that programs of older releases have for some of them: X(former, name, inputs, outputs). */",
        "#define DTN_CM_FORMER_NAMES(X) \\",
        " \\\n".join(f"    X({former}, {name}, {counts[name]})" for former, name in FORMER_NAMES.items()),
        "",
    )
    return cpu_operators("DEUTERON_CUSTOM_OPS_H", about, ADDED, _kernel_records(), rows)


def aten() -> str:
    """The text of `aten.h`."""
    about = (
        "Operators of ExecuTorch's portable kernels: values and parameter record of each.",
        "",
        "Each is a CPU operator of bundles (deuteron/bundle.h); its parameter words are the record. Tensors may have",
        "any order of dimensions in memory. A call iterates over dimensions of 1 or more, from the outermost in the",
        "output's memory on. Each operand has a stride of 0 or more per dimension, in elements. Results are float32's,",
        "rounded once per operation.",
        "",
        "Generated by tools/gen_headers.py from src/deuteron/operators/portable.py; do not edit.",
    )
    return cpu_operators("DEUTERON_ATEN_H", about, ATEN_OPERATORS, {})


def tflite() -> str:
    """The text of `tflite.h`."""
    about = (
        "Operators with the arithmetic of TFLite's reference kernels: values and parameter record of each.",
        "",
        "Each is a CPU operator of bundles (deuteron/bundle.h); its parameter words are the record. A factor is",
        "multiplier * 2^(shift - 31). R(x) is the product of a number with a factor: it rounds to nearest after the",
        "multiplication, and again after the shift to the right, there with ties away from zero. Strides are in",
        "elements; 0 repeats an operand.",
        "",
        "Generated by tools/gen_headers.py from src/deuteron/operators/tflite.py; do not edit.",
    )
    parts = (*UNQUANTIZED_OPERATORS, *SIGNAL_OPERATORS)
    here = [operator for operator in TFLITE_OPERATORS if operator not in parts]
    included = ("bundle", "tflite_signal", "tflite_unquantized")
    return cpu_operators("DEUTERON_TFLITE_H", about, here, {}, included=included)


def tflite_signal() -> str:
    """The text of `tflite_signal.h`."""
    about = (
        "Operators of TFLite Micro's signal library, which tflite.h includes: from samples of sound to features.",
        "",
        "A spectrum has complex numbers, real part first. Sums and products of uint32 and uint64 keep their low bits.",
        "",
        "Generated by tools/gen_headers.py from src/deuteron/operators/tflite_signal.py; do not edit.",
    )
    return cpu_operators("DEUTERON_TFLITE_SIGNAL_H", about, SIGNAL_OPERATORS, {})


def tflite_unquantized() -> str:
    """The text of `tflite_unquantized.h`."""
    about = (
        "More operators with the arithmetic of TFLite's reference kernels, which tflite.h includes: of float32, of",
        "plain whole numbers, and those of several steps.",
        "",
        "Generated by tools/gen_headers.py from src/deuteron/operators/tflite_unquantized.py; do not edit.",
    )
    return cpu_operators("DEUTERON_TFLITE_UNQUANTIZED_H", about, UNQUANTIZED_OPERATORS, {})


def operator_outputs() -> str:
    """`operator_outputs.h` of the runner."""
    most = max(map(len, OUTPUTS.values()))
    rows = "".join(
        f'    {{"{name}", {len(positions)}, {{{", ".join(map(str, positions))}}}}},\n'
        for name, positions in OUTPUTS.items()
    )
    return OPERATOR_OUTPUTS.replace("@MOST@", str(most)).replace("@VIEW@", VIEW).replace("@ROWS@", rows)


OPERATOR_OUTPUTS = """\
/* The arguments of a kernel call that its operator writes; `deuteron.runtime.operator_outputs` names the source.
 *
 * Generated by tools/gen_headers.py from src/deuteron/runtime/operator_outputs.py; do not edit. */
#ifndef DEUTERON_EXECUTORCH_RUNNER_OPERATOR_OUTPUTS_H
#define DEUTERON_EXECUTORCH_RUNNER_OPERATOR_OUTPUTS_H

#include <algorithm>
#include <cstddef>
#include <string>

namespace deuteron::runner
{

/* The operator that gives the memory of its first argument to its last one. It writes no element. */
constexpr const char *kView = "@VIEW@";

/* Positions of the arguments that a call writes. */
struct Outputs {
    const char *name;
    size_t count;
    size_t positions[@MOST@];

    bool contains(size_t position) const
    {
        return std::find(positions, positions + count, position) != positions + count;
    }
};

/* Operators that write another number of arguments than one. */
constexpr Outputs kOutputs[] = {
    /* clang-format off */
@ROWS@    /* clang-format on */
};

/* The outputs of a call with this number of arguments. */
inline Outputs outputs_of(const std::string &name, size_t arguments)
{
    for (const Outputs &listed : kOutputs) {
        if (name == listed.name) {
            return listed;
        }
    }
    return arguments >= 2 ? Outputs{"", 1, {arguments - 2}} : Outputs{"", 0, {}};
}

} // namespace deuteron::runner

#endif
"""


def version() -> str:
    """The text of `version.h`."""
    major, minor, patch = __version__.split(".")[:3]
    lines = [
        "/**",
        " * @file",
        " * The release of this library, for the preprocessor: `#if DTN_VERSION >= DTN_VERSION_NUMBER(0, 2, 0)`.",
        " *",
        " * Generated by tools/gen_headers.py from the version in pyproject.toml; do not edit.",
        " */",
        "#ifndef DEUTERON_VERSION_H",
        "#define DEUTERON_VERSION_H",
        "",
        f"#define DTN_VERSION_MAJOR {major}",
        f"#define DTN_VERSION_MINOR {minor}",
        f"#define DTN_VERSION_PATCH {patch}",
        f'#define DTN_VERSION_STRING "{__version__}"',
        "",
        "/** A release as one number, which grows with each: the minor number and the patch have 8 bits each. */",
        "#define DTN_VERSION_NUMBER(major, minor, patch) ((major) * 65536L + (minor) * 256L + (patch))",
        "",
        "/** This release. */",
        "#define DTN_VERSION DTN_VERSION_NUMBER(DTN_VERSION_MAJOR, DTN_VERSION_MINOR, DTN_VERSION_PATCH)",
        "",
        "#endif /* DEUTERON_VERSION_H */",
    ]
    return "\n".join(lines) + "\n"


HEADERS: tuple[tuple[Path, Callable[[], str]], ...] = (
    (INCLUDE / "microcode.h", microcode),
    (INCLUDE / "cortex_m.h", cortex_m),
    (INCLUDE / "custom_ops.h", custom_ops),
    (INCLUDE / "aten.h", aten),
    (INCLUDE / "tflite.h", tflite),
    (INCLUDE / "tflite_signal.h", tflite_signal),
    (INCLUDE / "tflite_unquantized.h", tflite_unquantized),
    (RUNNER / "operator_outputs.h", operator_outputs),
    (INCLUDE / "version.h", version),
)


def main(arguments: list[str]) -> int:
    """Exit status: 0 when the headers are (now) current."""
    status = 0
    for header, generate in HEADERS:
        text = generate()
        if arguments != ["--check"]:
            header.write_text(text)
        elif not header.is_file() or header.read_text() != text:
            print(f"error: {header.name} is stale\n\nhint: run tools/gen_headers.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
