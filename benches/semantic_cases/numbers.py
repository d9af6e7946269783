"""Numbers with tensors of bools and integers, promotion of dtypes, comparisons, masks, and unusual numbers."""

import math

import torch
from torch.nn import functional as F

from semantic_cases.case import VECTOR, Cases, bools, conv, dense, ints, uniform

CASES = Cases("numbers")

CASES.vectors(
    bool_times_int=lambda m, x: (m.f(x) > 0) * 3,
    bool_plus_int=lambda m, x: (m.f(x) > 0) + 1,
    int_minus_bool=lambda m, x: 5 - (m.f(x) > 0).int(),
    bool_times_float=lambda m, x: (m.f(x) > 0) * 0.5,
    bool_times_float_times_tensor=lambda m, x: (m.f(x) > 0) * 2.0 * m.f(x),
    float_times_bool=lambda m, x: 0.25 * (x > 0.1),
    bool_bits_to_codes=lambda m, x: ((m.f(x) > 0) * 4 + (x > 0) * 2 + (x > 1)).sum(1),
    bits_by_shift=lambda m, x: ((m.f(x) > 0).int() << 2) | (x > 0).int(),
    bits_dot_powers=lambda m, x: ((m.f(x) > 0).long() * (2 ** torch.arange(8))).sum(-1),
    bool_minus_mean=lambda m, x: (x > 0).float() - m.f(x),
    bool_plus_bool=lambda m, x: (x > 0) + (m.f(x) > 0),
    bool_times_bool=lambda m, x: ((x > 0) * (m.f(x) > 0)).float() * x,
    bool_sum=lambda m, x: (m.f(x) > 0).sum(),
    bool_sum_dim_over_float=lambda m, x: (m.f(x) > 0).sum(1) / 8,
    bool_mean_as_float=lambda m, x: (m.f(x) > 0).float().mean(1),
    bool_any_all=lambda m, x: ((m.f(x) > 1).any(1), (x > -1).all(0)),
    bool_xor=lambda m, x: (x > 0) ^ (m.f(x) > 0),
    bool_not_times=lambda m, x: ~(x > 0) * m.f(x),
    logical_functions=lambda m, x: torch.logical_or(x > 1, torch.logical_and(m.f(x) > 0, x < 0)),
    logical_not_of_float=lambda m, x: torch.logical_not(F.relu(m.f(x))),
    bool_cumsum=lambda m, x: (m.f(x) > 0).cumsum(1),
    bool_to_long_index=lambda m, x: torch.tensor([1.0, -1.0])[(m.f(x) > 0).long()] * x,
    bool_where_numbers=lambda m, x: torch.where(m.f(x) > 0, 1.0, -1.0),
    bool_where_ints=lambda m, x: torch.where(m.f(x) > 0, 1, 0),
    where_int_and_tensor=lambda m, x: torch.where(x > 0, m.f(x), 0),
    where_mixed_number=lambda m, x: torch.where(x > 0, 2, m.f(x)),
    where_of_ints_and_float=lambda m, x: torch.where(x > 0, (m.f(x) * 4).int(), 0.5),
    linear_plus_int=lambda m, x: m.f(x) + 1,
    int_plus_linear=lambda m, x: 1 + m.f(x),
    linear_minus_int=lambda m, x: m.f(x) - 2,
    int_minus_linear=lambda m, x: 2 - m.f(x),
    linear_times_int=lambda m, x: m.f(x) * 3,
    linear_over_int=lambda m, x: m.f(x) / 4,
    int_over_linear=lambda m, x: 1 / (m.f(x).abs() + 1),
    linear_plus_true=lambda m, x: m.f(x) + True,
    power_of_int=lambda m, x: m.f(x) ** 2,
    int_to_power=lambda m, x: 2 ** m.f(x),
    negative_int_power=lambda m, x: (m.f(x).abs() + 1) ** -1,
    float_power_half=lambda m, x: (m.f(x).abs() + 0.1) ** 0.5,
    add_with_alpha=lambda m, x: torch.add(m.f(x), x, alpha=2),
    sub_with_float_alpha=lambda m, x: torch.sub(m.f(x), x, alpha=0.5),
    rsub=lambda m, x: torch.rsub(m.f(x), 1),
    rsub_with_alpha=lambda m, x: torch.rsub(m.f(x), x, alpha=2),
    round_to_long_times_float=lambda m, x: (m.f(x) * 4).round().long() * 2.5,
    long_times_float_to_long=lambda m, x: ((m.f(x) * 4).long() * 2.5).long(),
    int_times_half_to_int=lambda m, x: ((x * 10).int() * 0.5).int(),
    trunc_towards_zero=lambda m, x: (m.f(x) * 3).to(torch.int32),
    floor_then_int=lambda m, x: torch.floor(m.f(x) * 3).to(torch.int16),
    to_uint8=lambda m, x: (torch.sigmoid(m.f(x)) * 255).to(torch.uint8),
    to_int8=lambda m, x: (torch.tanh(m.f(x)) * 127).round().to(torch.int8),
    type_as=lambda m, x: (x > 0).type_as(x) * m.f(x),
    to_other_tensor=lambda m, x: (m.f(x) > 0).to(x) + x,
    byte_arithmetic=lambda m, x: (torch.sigmoid(m.f(x)) * 15).byte() + 250,
    compare_with_int=lambda m, x: (m.f(x) * 2).round() == 1,
    compare_chain=lambda m, x: (m.f(x) > -0.5) & (m.f(x) < 0.5),
    compare_tensors=lambda m, x: torch.ge(m.f(x), x).float() * x,
    isclose=lambda m, x: torch.isclose(torch.sign(x), torch.ones(8)),
    equal_after_round=lambda m, x: (x.round() == m.f(x).round()).sum(1),
    signum_times=lambda m, x: torch.sign(x) * m.f(x).abs(),
    sgn_of_relu=lambda m, x: torch.sgn(F.relu(m.f(x))),
    heaviside=lambda m, x: torch.heaviside(m.f(x), torch.tensor(0.5)) * x,
    step_quantizer=lambda m, x: torch.round(m.f(x).clamp(-1, 1) * 3) / 3,
    straight_through=lambda m, x: x + (torch.round(m.f(x)) - x).detach(),
    binarised_weight=lambda m, x: F.linear(x, torch.sign(m.f.weight)),
    ternary_weight=lambda m, x: F.linear(x, (m.f.weight > 0.1).float() - (m.f.weight < -0.1).float()),
    scaled_binary_weight=lambda m, x: F.linear(x, m.f.weight.sign() * m.f.weight.abs().mean(1, keepdim=True)),
    masked_fill_int=lambda m, x: m.f(x).masked_fill(x < 0, 0),
    masked_fill_inf_softmax=lambda m, x: m.f(x).masked_fill(x > 1.5, float("-inf")).softmax(-1),
    masked_fill_large_softmax=lambda m, x: m.f(x).masked_fill(x > 1.5, -1e9).softmax(-1),
    masked_fill_least_softmax=lambda m, x: m.f(x).masked_fill(x > 1.5, torch.finfo(x.dtype).min).softmax(-1),
    masked_mean=lambda m, x: (m.f(x) * (x > 0)).sum(1) / (x > 0).sum(1).clamp(min=1),
    masked_mean_eps=lambda m, x: (m.f(x) * (x > 0).float()).sum(1) / ((x > 0).float().sum(1) + 1e-6),
    additive_mask=lambda m, x: (m.f(x) + (1.0 - (x > -1).float()) * -10000.0).softmax(-1),
    mask_from_abs=lambda m, x: m.f(x) * (x.abs() > 0.5),
    mask_from_relu_sign=lambda m, x: (F.relu(x) != 0).float() * m.f(x),
    count_nonzero=lambda m, x: torch.count_nonzero(F.relu(m.f(x)), dim=1),
    clamp_swapped=lambda m, x: m.f(x).clamp(0.5, -0.5),
    clamp_tensor_bounds=lambda m, x: torch.clamp(m.f(x), -x.abs(), x.abs()),
    clamp_only_min=lambda m, x: m.f(x).clamp(min=-0.25),
    clamp_only_max=lambda m, x: m.f(x).clamp_max(0.3),
    clamp_ints=lambda m, x: (m.f(x) * 8).int().clamp(-3, 4),
    clip_equal_bounds=lambda m, x: torch.clip(m.f(x), 0.25, 0.25) + x,
    min_max_scalars=lambda m, x: torch.minimum(m.f(x), torch.tensor(0.5)),
    maximum_of_two=lambda m, x: torch.maximum(m.f(x), -x),
    fmin_fmax=lambda m, x: torch.fmin(torch.fmax(m.f(x), x), torch.tensor(1.0)),
    negated_relu=lambda m, x: -F.relu(-m.f(x)),
    double_negation=lambda m, x: -(-m.f(x)),
    soft_shrink_by_hand=lambda m, x: x.sign() * F.relu(m.f(x).abs() - 0.2),
    relu_by_where=lambda m, x: torch.where(m.f(x) < 0, torch.zeros_like(x), m.f(x)),
    relu_by_mask=lambda m, x: m.f(x) * (m.f(x) > 0),
    leaky_by_max=lambda m, x: torch.max(m.f(x), 0.1 * m.f(x)),
    safe_division=lambda m, x: m.f(x) / (x.abs() + 1e-8).clamp(min=0.1),
    division_by_clamped_sum=lambda m, x: F.relu(m.f(x)) / F.relu(m.f(x)).sum(1, keepdim=True).clamp_min(1e-5),
    true_division_of_ints=lambda m, x: (x * 8).int() / 3,
    floor_division_of_floats=lambda m, x: m.f(x) // 0.5,
    rounded_to_decimals=lambda m, x: torch.round(m.f(x), decimals=1),
    floor_division_of_ints=lambda m, x: (m.f(x) * 16).int() // 3,
    truncated_division=lambda m, x: torch.div((m.f(x) * 16).int(), 3, rounding_mode="trunc"),
    floor_mode_of_floats=lambda m, x: torch.div(m.f(x), 0.25, rounding_mode="floor"),
    remainder_of_ints=lambda m, x: (m.f(x) * 16).int() % 5,
    remainder_negative=lambda m, x: (m.f(x) * 16).int() % -5,
    remainder_of_floats=lambda m, x: torch.remainder(m.f(x), 0.75),
    fmod_of_ints=lambda m, x: torch.fmod((m.f(x) * 16).int(), 5),
    frac=lambda m, x: torch.frac(m.f(x) * 2),
    trunc_minus=lambda m, x: m.f(x) - torch.trunc(m.f(x)),
    negative_zero_sign=lambda m, x: torch.where(1 / (F.relu(m.f(x)) + 1) > 0.99, 0.0, x),
    huge_bias=lambda m, x: m.f(x) + 1000.0,
    huge_factor=lambda m, x: m.f(x) * 1e6,
    tiny_factor=lambda m, x: m.f(x) * 1e-6,
    huge_offset_cancelled=lambda m, x: (m.f(x) + 100.0) - 100.0,
    eps_in_log=lambda m, x: torch.log(m.f(x).abs() + 1e-6),
    eps_in_sqrt=lambda m, x: torch.sqrt(m.f(x) ** 2 + 1e-12),
    eps_in_rsqrt=lambda m, x: x * torch.rsqrt(m.f(x).pow(2).mean(-1, keepdim=True) + 1e-6),
    log_of_clamped_sigmoid=lambda m, x: torch.log(torch.sigmoid(m.f(x)).clamp(1e-4, 1 - 1e-4)),
    logit_with_eps=lambda m, x: torch.logit(torch.sigmoid(m.f(x)), eps=1e-3),
    nan_to_num=lambda m, x: torch.nan_to_num(m.f(x) / (x * 0 + 1), nan=0.0, posinf=1.0),
    infinite_clamp=lambda m, x: m.f(x).clamp(float("-inf"), 0.5),
    is_finite=lambda m, x: torch.isfinite(m.f(x)),
    not_nan_mask=lambda m, x: m.f(x) * ~torch.isnan(x),
    degrees=lambda m, x: m.f(x) * 180 / math.pi,
    pi_wrapped=lambda m, x: torch.remainder(m.f(x) * 3 + math.pi, 2 * math.pi) - math.pi,
    python_scalar_tensor=lambda m, x: m.f(x) * torch.tensor(3),
    zero_dim_int_tensor=lambda m, x: (x * 4).int() * torch.tensor(2.5),
    zero_dim_long_promotion=lambda m, x: (x * 4).to(torch.int16) + torch.tensor(3, dtype=torch.int64),
    mixed_int_widths=lambda m, x: (x * 4).to(torch.int8) + (m.f(x) * 4).to(torch.int32),
    result_type=lambda m, x: (x > 0).to(torch.result_type(x, 1)) + m.f(x),
    scalar_tensor_item_constant=lambda m, x: m.f(x) * float(torch.tensor(0.5)),
    scaled_by_shape=lambda m, x: m.f(x) / x.shape[-1] ** 0.5,
    scaled_by_numel=lambda m, x: m.f(x).sum() / x.numel(),
    full_like_int=lambda m, x: m.f(x) + torch.full_like(x, 2),
    ones_of_bool=lambda m, x: torch.ones_like(x, dtype=torch.bool) * m.f(x),
    zeros_plus=lambda m, x: torch.zeros(4, 8) + m.f(x),
    arange_times=lambda m, x: m.f(x) * torch.arange(8),
    arange_float_step=lambda m, x: m.f(x) + torch.arange(0, 4, 0.5),
    linspace_weights=lambda m, x: (m.f(x).softmax(-1) * torch.linspace(0, 7, 8)).sum(-1),
    soft_argmax=lambda m, x: (m.f(x).softmax(-1) * torch.arange(8, dtype=torch.float32)).sum(-1),
    lerp=lambda m, x: torch.lerp(x, m.f(x), 0.3),
    lerp_tensor=lambda m, x: torch.lerp(x, m.f(x), torch.sigmoid(x)),
    addcmul=lambda m, x: torch.addcmul(x, m.f(x), x, value=0.5),
    addcdiv=lambda m, x: torch.addcdiv(x, m.f(x), x.abs() + 1, value=0.5),
    other_names=lambda m, x: torch.subtract(torch.multiply(m.f(x), x), torch.divide(x.absolute(), 2)).negative(),
    other_name_of_comparison=lambda m, x: torch.greater((m.f(x) * 4).int(), 0.5) * 2,
    hypot=lambda m, x: torch.hypot(m.f(x), x),
    atan2=lambda m, x: torch.atan2(m.f(x), x.abs() + 1),
    logaddexp=lambda m, x: torch.logaddexp(m.f(x), x),
    xlogy=lambda m, x: torch.xlogy(F.relu(x), torch.sigmoid(m.f(x))),
    copysign=lambda m, x: torch.copysign(m.f(x), x),
    ldexp=lambda m, x: torch.ldexp(m.f(x), torch.tensor(2)),
    square_reciprocal=lambda m, x: torch.reciprocal(torch.square(m.f(x)) + 1),
    expm1_log1p=lambda m, x: torch.log1p(F.relu(m.f(x))) + torch.expm1(x.clamp(max=1)),
    softplus_threshold=lambda m, x: F.softplus(m.f(x), beta=2, threshold=1),
    erf=lambda m, x: x * 0.5 * (1 + torch.erf(m.f(x) / math.sqrt(2))),
    sum_over_rows_and_columns=lambda m, x: m.f(x).sum((0, 1)),
    prod=lambda m, x: (torch.sigmoid(m.f(x)) + 0.5).prod(1),
    cumprod=lambda m, x: torch.cumprod(torch.sigmoid(m.f(x)) + 0.4, 1),
    std_unbiased=lambda m, x: m.f(x).std(1),
    var_population=lambda m, x: m.f(x).var(1, correction=0),
    var_mean=lambda m, x: torch.var_mean(m.f(x), dim=1),
    amax_amin=lambda m, x: m.f(x).amax(1) - m.f(x).amin(1),
    aminmax=lambda m, x: torch.aminmax(m.f(x), dim=1),
    norm_2=lambda m, x: m.f(x).norm(dim=1),
    norm_1=lambda m, x: m.f(x).norm(p=1, dim=1),
    norm_3=lambda m, x: m.f(x).norm(p=3, dim=1),
    norm_inf=lambda m, x: torch.linalg.vector_norm(m.f(x), ord=float("inf"), dim=1),
    normalize=lambda m, x: F.normalize(m.f(x), dim=-1),
    cosine_similarity=lambda m, x: F.cosine_similarity(m.f(x), x, dim=-1),
    cosine_similarity_of_columns=lambda m, x: F.cosine_similarity(m.f(x), x, dim=0),
    cosine_similarity_of_pairs=lambda m, x: F.cosine_similarity(m.f(x).unsqueeze(1), x, dim=-1),
    logsumexp=lambda m, x: torch.logsumexp(m.f(x), 1),
    log_softmax_nll=lambda m, x: -F.log_softmax(m.f(x), -1)[:, 0],
    softmin=lambda m, x: F.softmin(m.f(x), dim=1),
    softmax_temperature=lambda m, x: (m.f(x) / 0.1).softmax(-1),
    softmax_over_batch=lambda m, x: m.f(x).softmax(0),
)

CASES.function("int_input_plus_float", lambda m, i: i + 0.5, ints(10, 4, 8))
CASES.function("int_input_times_scale", lambda m, i: m.f(i * 0.1), ints(20, 4, 8), f=dense)
CASES.function("int_input_to_float", lambda m, i: m.f(i.float() / 255.0), ints(256, 4, 8), f=dense)
CASES.function("uint8_image", lambda m, i: m.c(i / 255), ints(256, 1, 3, 8, 8, dtype=torch.uint8), c=conv)
CASES.function("int32_overflow", lambda m, i: i * 1_000_000, ints(9000, 4, 8, dtype=torch.int32))
CASES.function("int8_wraps", lambda m, i: i + i, ints(127, 4, 8, dtype=torch.int8))
CASES.function("int_floor_division", lambda m, i: i // 3, ints(20, 4, 8, low=-20))
CASES.function("int_remainder", lambda m, i: i % 7, ints(50, 4, 8, low=-50))
CASES.function("int_over_int", lambda m, i: i / 7, ints(50, 4, 8, low=-50))
CASES.function("int_power", lambda m, i: i**3, ints(5, 4, 8, low=-5))
CASES.function("int_mean", lambda m, i: i.float().mean(1), ints(50, 4, 8))
CASES.function("int_cumsum", lambda m, i: i.cumsum(1), ints(50, 4, 8))
CASES.function("int_abs_neg", lambda m, i: -i.abs(), ints(50, 4, 8, low=-50))
CASES.function("int_compare_index", lambda m, i, x: (i == 3) * m.f(x), ints(8, 4, 8), VECTOR, f=dense)
CASES.function("bool_input_selects", lambda m, b, x: torch.where(b, m.f(x), -1), bools(4, 8), VECTOR, f=dense)
CASES.function("bool_input_multiplied", lambda m, b, x: m.f(x) * b * 2, bools(4, 8), VECTOR, f=dense)
CASES.function("bool_input_counted", lambda m, b: b.sum(1) * 2 + 1, bools(4, 8))
CASES.function("positive_log", lambda m, x: torch.log(x) * 2, uniform(0.5, 2.0, 4, 8))
CASES.function("reciprocal_of_input", lambda m, x: 1 / x, uniform(0.5, 2.0, 4, 8))
CASES.function("many_rows_summed", lambda m, x: m.f(x).sum(1), (1, 1000, 8), f=dense)
CASES.function("one_element", lambda m, x: m.f(x) * 2, (1, 1), f=lambda: dense(1, 1))
CASES.function("ones_everywhere", lambda m, x: m.c(x), (1, 1, 1, 1), c=lambda: conv(1, 1, 1))
CASES.function("scalar_input", lambda m, x: x * 2 + 1, ())
CASES.function("vector_without_batch", lambda m, x: m.f(x), (8,), f=dense)
CASES.function("vector_times_weight", lambda m, x: x @ m.f.weight, (8,), f=dense)
CASES.function("big_bias_layer", lambda m, x: m.f(x), VECTOR, f=lambda: _biased(50.0))
CASES.function("huge_bias_layer", lambda m, x: m.f(x), VECTOR, f=lambda: _biased(1e4))
CASES.function("zero_weights", lambda m, x: m.f(x) + x, VECTOR, f=lambda: _scaled(0.0))
CASES.function("tiny_weights", lambda m, x: m.f(x), VECTOR, f=lambda: _scaled(1e-5))


def _biased(bias: float) -> torch.nn.Linear:
    layer = dense()
    torch.nn.init.constant_(layer.bias, bias)
    return layer


def _scaled(factor: float) -> torch.nn.Linear:
    layer = dense()
    with torch.no_grad():
        layer.weight.mul_(factor)
        layer.bias.mul_(factor)
    return layer


CASES.vectors(
    bool_less_than_bool=lambda m, x: (m.f(x) > 0) < (x > 0),
    bool_equal_to_bool=lambda m, x: (m.f(x) > 0) == (x > 0),
    sum_below_zero=lambda m, x: (m.f(x).sum() < 0).float() * x,
    greatest_of_sums=lambda m, x: m.f(x).abs().sum(0).amax() + torch.linalg.norm(x),
)
CASES.function("bool_is_zero", lambda m, x, b: (b == 0, m.f(x) * (b != 1)), VECTOR, bools(4, 8), f=dense)
CASES.function("int_times_fraction_floored", lambda m, i: torch.floor(i * 0.3).long(), ints(50, 4, 8, low=-50))
CASES.function("int_sum_beyond_32_bits", lambda m, i: (i * 100_000_000).sum(1), ints(50, 4, 8, low=-50))
CASES.function("tiny_inputs", lambda m, x: m.f(x * 1e5), uniform(-1e-5, 1e-5, 4, 8), f=dense)
CASES.function("huge_inputs", lambda m, x: torch.tanh(m.f(x * 1e-6)), uniform(-1e6, 1e6, 4, 8), f=dense)
