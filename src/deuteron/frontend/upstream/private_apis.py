"""Declares the private names of PyTorch, torchao and ExecuTorch that the front end reads or replaces, with the reasons.

They are those of torch 2.13 and ExecuTorch 1.5. After an upgrade, `missing` and `deuteron doctor` list the names that
need work. Public names that are replaced are declared as well. Names that are only imported from modules of the three
backends are not: an import of a missing name fails by itself.
"""

from typing import cast

from deuteron.frontend.upstream import access
from deuteron.frontend.upstream.access import PrivateName

# PyTorch: builds get shorter.
LIBRARY_DEFINE = PrivateName("torch.library", "Library.define", "invalidates the list of composite operators", True)
LIBRARY_IMPL = PrivateName("torch.library", "Library.impl", "invalidates the list of composite operators", True)
MATERIALIZE_OPERATORS = PrivateName(
    "torch._export.utils", "_materialize_cpp_cia_ops", "lists composite operators once per build", True
)
LIST_OPERATORS = PrivateName(
    "torch._export.utils", "_collect_all_valid_cia_ops_for_namespace", "lists composite operators once per build", True
)
REGISTER_KERNEL = PrivateName("torch._ops", "OperatorBase.py_impl", "registers kernels of operators in less time", True)
OPERATOR_SOURCE = PrivateName("torch._library.utils", "get_source", "finds source lines without reading files", True)
NODE_SOURCE = PrivateName("torch.fx.traceback", "NodeSource", "is shared between nodes instead of copied", True)
VALIDATE_CACHE_KEY = PrivateName(
    "torch._subclasses.fake_tensor", "FakeTensorMode._validate_cache_key", "caches shapes of quantize operators", True
)
GRAPH_RECOMPILE = PrivateName("torch.fx.graph_module", "GraphModule.recompile", "generates Python code when used", True)
GRAPH_REDUCE = PrivateName("torch.fx.graph_module", "GraphModule.__reduce__", "generates Python code when used", True)
CONSTRAINT_GUARDS = PrivateName(
    "torch._dynamo.functional_export",
    "_suggest_or_raise_constraint_violation",
    "guards no shapes where none is dynamic",
    True,
)
STRICT_EXPORT = PrivateName("torch.export._trace", "_strict_export", "generates Python code when used", True)
RUN_DECOMPOSITIONS = PrivateName(
    "torch.export.exported_program", "ExportedProgram.run_decompositions", "traces a program once", True
)
AUTO_FUNCTIONALIZED = PrivateName(
    "torch._inductor.fx_passes.post_grad", "decompose_auto_functionalized", "loads PyTorch's compiler when used", True
)
LOAD_YAML = PrivateName("ruamel.yaml.main", "YAML.load", "reads tables of operators with libyaml", True)
SERIALIZER_TYPING = PrivateName(
    "torch._export.serde.serialize", "typing", "finds the types of a class's fields once per file", True
)
HISTOGRAM_SEARCH = PrivateName(
    "torchao.quantization.pt2e.observer",
    "HistogramObserver._non_linear_param_search",
    "selects ranges by other methods, and by PyTorch's without tensors",
)
MUTABLE_BUFFERS = tuple(
    PrivateName(module, "_is_mutable_buffer", "looks for changed buffers only where there are any", True)
    for module in ("executorch.exir.memory_planning", "executorch.exir.passes.spec_prop_pass")
)
NXP_RECOMPILE = PrivateName(
    "executorch.backends.nxp.edge_passes.neutron_edge_pass",
    "NeutronEdgePass.recompile_module",
    "traces a graph only if a pass has changed it",
    True,
)
NXP_GROUPS = PrivateName(
    "executorch.backends.nxp.quantizer.neutron_quantizer",
    "find_sequential_partitions_aten",
    "finds the groups of each pattern once",
    True,
)

# PyTorch: results depend on it.
EXPORT = PrivateName("torch.export", "export", "returns the graph of a module that is exported already")
DEREGISTER = PrivateName(
    "torch.utils._pytree", "_deregister_pytree_node", "leaves the dataclasses of a model's outputs as they were"
)
REPLACE_HOOK = PrivateName("torch.fx.graph_module", "GraphModule._set_replace_hook", "copies source lines")
CODEGEN = PrivateName("torch.fx.graph", "Graph._codegen", "has the structure of a graph's inputs and outputs")
QUANTIZATION_ERROR = PrivateName(
    "torchao.quantization.pt2e.observer", "HistogramObserver._compute_quantization_error", "is the error of a range"
)
FUSE_CONVOLUTION = PrivateName("torchao.quantization.pt2e.utils", "_fuse_conv_bn_", "folds batch norms")
FUSE_LINEAR = PrivateName("torchao.quantization.pt2e.utils", "_fuse_linear_bn_", "folds batch norms")
TRANSFORMS = PrivateName(
    "torch._functorch.pyfunctorch", "retrieve_all_functorch_interpreters", "finds lines that use `torch.func`"
)
WITHOUT_MODES = PrivateName(
    "torch.utils._python_dispatch", "_disable_current_modes", "computes numbers of constants in an export"
)
DISTRIBUTION_CHECKS = PrivateName(
    "torch.distributions.distribution",
    "Distribution._validate_args",
    "skips checks of values that only raise errors",
    True,
)
MODE_QUERIES = tuple(
    PrivateName(module, name, "finds user code that behaves differently in an export", True)
    for module, names in {
        "torch.compiler": ("is_compiling", "is_exporting", "is_dynamo_compiling"),
        "torch.jit": ("is_tracing", "is_scripting"),
        "torch._dynamo": ("is_compiling",),
    }.items()
    for name in names
)

# ExecuTorch.
EDGE_PROGRAMS = PrivateName(
    "executorch.exir.program._program", "EdgeProgramManager._edge_programs", "gets the Cortex-M's operators"
)
EDGE_OPERATOR = PrivateName("executorch.exir.dialects.edge._ops", "EdgeOpOverload._op", "is the ATen operator")
DELEGATE_BYTES = PrivateName(
    "executorch.exir.lowered_backend_module", "LoweredBackendModule._processed_bytes", "gets jointly planned partitions"
)
EMITTED = tuple(
    PrivateName("executorch.exir.program._program", f"ExecutorchProgramManager.{name}", "emits a program again")
    for name in ("_execution_programs", "_config_methods", "_named_data", "_etrecord")
)
EMIT_TENSOR = PrivateName(
    "executorch.exir.emit._emitter", "_Emitter._tensor_spec_to_evalue", "gives a state the number of its own content"
)
DELEGATE_MAP = PrivateName(
    "executorch.devtools.etrecord._etrecord", "ETRecord._delegate_map", "gets the names of kernel calls"
)

# ExecuTorch's NXP backend.
NXP_PREPROCESS = PrivateName("executorch.backends.nxp.nxp_backend", "NeutronBackend.preprocess", "records partitions")
NXP_TO_TFLITE = PrivateName(
    "executorch.backends.nxp.backend.edge_program_converter",
    "EdgeProgramToIRConverter.convert_program",
    "records the TFLite file of a partition",
)
NXP_APPEND_OPERATORS = PrivateName(
    "executorch.backends.nxp.backend.ir.converter.builder.aten_model_builder_director",
    "AtenModelBuilderDirector.append_operators",
    "corrects the formats of operands and results",
)
NXP_CONVERT = PrivateName(
    "executorch.backends.nxp.backend.neutron_converter_manager",
    "NeutronConverterManager.convert",
    "records the converted partition",
)
NXP_VERIFY = PrivateName(
    "executorch.backends.nxp.backend.ir.converter.builder.quantization_verification",
    "verify_quantization_integrity",
    "finds the operators that fail",
)
NXP_CONVERTER_PARTS = tuple(
    PrivateName("executorch.backends.nxp.backend.neutron_converter_manager", name, "is bound to the chosen converter")
    for name in ("multiprocessing", "neutron_converter", "neutron_library_utils")
)
NXP_SUPPORTED = PrivateName(
    "executorch.backends.nxp.neutron_partitioner", "NeutronSupportedOperators", "records why nodes are rejected"
)
NXP_OPERATORS = PrivateName("executorch.backends.nxp.neutron_partitioner", "supported_ops", "gets table operators")
NXP_CONVERTERS = PrivateName(
    "executorch.backends.nxp.backend.edge_program_converter", "functions_converters", "gets table operators"
)
NXP_NODE_CONVERTER = tuple(
    PrivateName(
        "executorch.backends.nxp.backend.ir.converter.node_converter", f"NodeConverter.{name}", "converts tables"
    )
    for name in ("_is_supported_in_IR", "_is_supported_on_target", "_create_tflite_op_with_io_tensors")
)

# ExecuTorch's Arm backend.
ARM_PREPROCESS = PrivateName("executorch.backends.arm.ethosu.backend", "EthosUBackend.preprocess", "records partitions")
ARM_VELA = PrivateName("executorch.backends.arm.arm_vela", "vela", "runs Vela in a separate process")
ARM_TO_TOSA = PrivateName(
    "executorch.backends.arm._passes.arm_pass_manager",
    "ArmPassManager.transform_to_backend_pipeline",
    "gets the workarounds for Vela",
)
ARM_MARK = PrivateName(
    "executorch.backends.arm.quantizer.arm_quantizer_utils",
    "_mark_node_as_quantized",
    "leaves out divisions of integers",
)
ARM_SHARED_SCALES = PrivateName(
    "executorch.backends.arm.quantizer.arm_quantizer_utils",
    "SharedQspecQuantizer._maybe_enqueue_shared_node",
    "visits each node with a shared scale once",
    True,
)
ARM_EQUAL_USERS = PrivateName(
    "executorch.backends.transforms.fuse_duplicate_users_pass",
    "FuseDuplicateUsersPass._build_user_signature",
    "keeps operators apart whose quantization or parameters differ",
)
ARM_INT64 = PrivateName(
    "executorch.backends.arm._passes.insert_int32_casts_after_int64_placeholders",
    "InsertInt32CastsAfterInt64PlaceholdersPass.I64_INPUT_ARG_POSITIONS",
    "gets operators that require int64 indices",
)
ARM_REPORTER = PrivateName(
    "executorch.backends.arm.tosa.partitioner", "WhyNoPartitionReporter", "records why nodes are rejected"
)
ARM_REJECTED = PrivateName(
    "executorch.exir.backend.utils", "WhyNoPartitionReporter._rejected_nodes", "records why nodes are rejected"
)
ARM_COMPILE_SPEC = tuple(
    PrivateName("executorch.backends.arm.common.arm_compile_spec", f"ArmCompileSpec.{name}", "gets options for Vela")
    for name in ("_from_list", "_to_list")
)

# ExecuTorch's Cortex-M backend.
CORTEX_M_PASSES = tuple(
    PrivateName(
        "executorch.backends.cortex_m.passes.cortex_m_pass_manager", f"CortexMPassManager.{name}", "lists the passes"
    )
    for name in ("pass_list_transform_for_annotation", "legacy_pass_list")
)


_DECLARED: list[object] = [*globals().values()]
NAMES = tuple(
    one
    for value in _DECLARED
    for one in (cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,))
    if isinstance(one, PrivateName)
)
"""All declared names."""


def missing() -> tuple[PrivateName, ...]:
    """Return the declared names that the installed packages do not define."""
    return access.missing(NAMES)
