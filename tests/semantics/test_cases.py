"""Cases of the bench of semantics that a build computes, on targets where they were wrong, or failed."""

import pytest
from semantic_cases import CASES
from semantic_judge import Verdict, row
from tests import full

BUILDS = [
    ("aliasing.addcmul_in_place", "cortex-m55"),
    ("aliasing.scatter_add_in_place", "ethos-u55-128"),
    ("aliasing.transposed_input", "ethos-u55-128"),
    ("aliasing.unbind_columns", "imxrt700cm"),
    ("blocks.gpt_attention", "cortex-m55"),
    ("blocks.gumbel_gate", "cortex-m55"),
    ("blocks.res2net", "cortex-m55"),
    ("blocks.squeeze_excite", "cortex-m55"),
    ("blocks.yolo_head", "ethos-u55-128cm"),
    ("indices.embedding_plus_positions", "cortex-m55"),
    ("indices.greedy_decode", "ethos-u55-128"),
    ("indices.hashed", "ethos-u55-128"),
    ("containers.reduced_int32", "ethos-u85-256"),
    ("indices.cummax", "ethos-u55-128"),
    ("indices.palette", "cortex-m55"),
    ("indices.rank_of_each", "ethos-u85-256"),
    ("indices.scatter_constant", "ethos-u85-256"),
    ("indices.scatter_reduce", "ethos-u55-128"),
    ("layers.activation_rrelu", "ethos-u55-128"),
    ("layers.fold", "cortex-m55"),
    ("layers.generalised_mean", "cortex-m55"),
    ("layers.instance_norm_with_statistics", "cortex-m55"),
    ("layers.interpolate_bicubic", "ethos-u55-128"),
    ("layers.interleaved_rotary", "ethos-u55-128"),
    ("layers.local_response_norm", "ethos-u55-128"),
    ("sequences.addmm", "ethos-u55-128"),
    ("sequences.matmul_with_vector", "ethos-u55-128"),
    ("sequences.rotary_complex", "ethos-u55-128"),
    ("layers.interpolate_nearest_exact", "cortex-m55"),
    ("numbers.cosine_similarity", "ethos-u85-256"),
    ("numbers.cosine_similarity_of_columns", "ethos-u55-128"),
    ("numbers.cosine_similarity_of_pairs", "ethos-u85-256"),
    ("numbers.floor_division_of_floats", "imxrt700cm"),
    ("numbers.many_rows_summed", "imxrt700cm"),
    ("numbers.rounded_to_decimals", "ethos-u55-128"),
    ("numbers.where_of_ints_and_float", "ethos-u85-256"),
    ("state.buffer_assigned", "cortex-m55"),
    ("structure.returns_dict", "cortex-m55"),
    ("structure.returns_namedtuple", "cortex-m55"),
    ("structure.returns_torch_type", "cortex-m55"),
    ("structure.stft", "ethos-u85-256"),
    ("structure.triangle", "ethos-u55-128cm"),
]

KINDS = [
    ("aliasing.unbind_columns", "imxrt700cm"),
    ("blocks.gpt_attention", "cortex-m55"),
    ("indices.greedy_decode", "ethos-u55-128"),
    ("layers.interpolate_bicubic", "ethos-u55-128"),
    ("numbers.many_rows_summed", "imxrt700cm"),
    ("structure.stft", "ethos-u85-256"),
]
"""At least one case of each topic; the tests of each part have small ones of all."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), full.only(BUILDS, *KINDS[::2]))
def test_it_computes_what_the_module_computes(name: str, target: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    found = row(case, target)
    assert (found.verdict, found.text) == (Verdict.AGREES, "")
