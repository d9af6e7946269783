"""Writes in place, also through views of all kinds, and inputs that are not contiguous."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from semantic_cases.case import IMAGE, TOKENS, VECTOR, Cases, Written, conv, dense, viewed

CASES = Cases("aliasing")


def writes(name: str, write: Callable[[Any, Tensor, Tensor], Any], *, after: bool = True) -> None:
    """Add a module that computes `y` from its vector, lets a function write into `y`, and goes on with `y`."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.f(x)
        write(m, x, y)
        return m.g(y) if after else y

    CASES.add(name, lambda: Written(forward, {"f": dense, "g": dense}), VECTOR)


def _assign(y: Tensor, index: Any, value: Any) -> None:
    y[index] = value


def _add(y: Tensor, index: Any, value: Any) -> None:
    y[index] += value


def _loop(y: Tensor) -> None:
    for i in range(y.shape[0]):
        y[i] = y[i] * (i + 1)


def _swap(y: Tensor) -> None:
    y[0], y[1] = y[1].clone(), y[0].clone()


def _swap_aliased(y: Tensor) -> None:
    y[0], y[1] = y[1], y[0]


def _res2net(m: Any, x: Tensor) -> Tensor:
    parts = list(m.f(x).chunk(4, dim=1))
    for i in range(1, 4):
        parts[i] += parts[i - 1]
    return torch.cat(parts, 1)


def _chain(y: Tensor) -> None:
    a = y.view(4, 2, 4)
    b = a.transpose(1, 2)
    b[:, 0].mul_(2)


writes("relu_in_place", lambda m, x, y: y.relu_())
writes("functional_relu_in_place", lambda m, x, y: F.relu(y, inplace=True))
writes("add_in_place", lambda m, x, y: y.add_(x))
writes("add_alpha_in_place", lambda m, x, y: y.add_(x, alpha=0.5))
writes("sub_in_place", lambda m, x, y: y.sub_(0.5), after=False)
writes("mul_in_place_int", lambda m, x, y: y.mul_(2), after=False)
writes("div_in_place", lambda m, x, y: y.div_(x.abs() + 1))
writes("clamp_in_place", lambda m, x, y: y.clamp_(-0.5, 0.5))
writes("neg_in_place", lambda m, x, y: y.neg_())
writes("zero_in_place", lambda m, x, y: y[:, 2:4].zero_())
writes("fill_in_place", lambda m, x, y: y[0].fill_(1.5))
writes("copy_in_place", lambda m, x, y: y[:, :4].copy_(x[:, 4:]))
writes("masked_fill_in_place", lambda m, x, y: y.masked_fill_(x > 0, -1.0))
writes("masked_fill_view", lambda m, x, y: y[:2].masked_fill_(x[:2] > 0, 0))
writes("index_by_mask", lambda m, x, y: _assign(y, x > 1, 0.0))
writes("index_by_own_mask", lambda m, x, y: _assign(y, y < 0, 0.0))
writes("index_by_list", lambda m, x, y: _assign(y, [0, 2], 1.0))
writes("index_by_tensor", lambda m, x, y: _assign(y, torch.tensor([1, 3]), x[:2]))
writes("index_column", lambda m, x, y: _assign(y, (slice(None), 0), 0.0))
writes("index_negative", lambda m, x, y: _assign(y, (..., -1), x[:, 0]))
writes("index_step", lambda m, x, y: _assign(y, (slice(None), slice(None, None, 2)), x[:, 1::2]))
writes("index_ellipsis", lambda m, x, y: _assign(y, ..., x))
writes("index_added", lambda m, x, y: _add(y, (slice(None), slice(0, 4)), x[:, :4]))
writes("index_added_row", lambda m, x, y: _add(y, 0, 1))
writes("index_overlapping", lambda m, x, y: _assign(y, (slice(None), slice(1, None)), y[:, :-1].clone()))
writes("index_pair", lambda m, x, y: _assign(y, (torch.tensor([0, 1]), torch.tensor([2, 3])), 3.0))
writes("index_put_accumulate", lambda m, x, y: y.index_put_((torch.tensor([0, 0]),), x[:2], accumulate=True))
writes("index_fill", lambda m, x, y: y.index_fill_(1, torch.tensor([0, 3]), 0.5))
writes("index_copy", lambda m, x, y: y.index_copy_(0, torch.tensor([3, 1]), x[:2]))
writes("index_add", lambda m, x, y: y.index_add_(1, torch.tensor([0, 5]), x[:, :2]))
writes("put", lambda m, x, y: y.put_(torch.tensor([0, 9]), torch.tensor([1.0, 2.0])))
writes("scatter_in_place", lambda m, x, y: y.scatter_(1, torch.tensor([[0], [1], [2], [3]]), 1.0))
writes("scatter_add_in_place", lambda m, x, y: y.scatter_add_(1, torch.zeros(4, 1, dtype=torch.long), x[:, :1]))
writes("fill_diagonal", lambda m, x, y: y.fill_diagonal_(0.0))
writes("unbind_written", lambda m, x, y: y.unbind(0)[1].mul_(3))
writes("unbind_each", lambda m, x, y: [row.add_(i) for i, row in enumerate(y.unbind(0))])
writes("unbind_columns", lambda m, x, y: y.unbind(1)[0].add_(1.0))
writes("chunk_written", lambda m, x, y: y.chunk(2, 1)[0].mul_(2))
writes("chunk_added_to_other", lambda m, x, y: y.chunk(2, 1)[1].add_(y.chunk(2, 1)[0]))
writes("split_written", lambda m, x, y: y.split([2, 6], 1)[1].relu_())
writes("tensor_split_written", lambda m, x, y: torch.tensor_split(y, 3, 1)[2].zero_())
writes("narrow_written", lambda m, x, y: y.narrow(1, 2, 3).neg_())
writes("select_written", lambda m, x, y: y.select(0, 2).fill_(0.25))
writes("diagonal_written", lambda m, x, y: y.diagonal().fill_(2.0))
writes("diagonal_added", lambda m, x, y: torch.diagonal(y, 1).add_(1.0))
writes("transpose_written", lambda m, x, y: y.t()[0].zero_())
writes("permute_written", lambda m, x, y: y.view(4, 2, 4).permute(2, 0, 1)[0].mul_(0.5))
writes("view_written", lambda m, x, y: y.view(-1)[3:11].add_(1))
writes("reshape_written", lambda m, x, y: y.reshape(8, 4)[0].zero_())
writes("reshape_of_transpose_is_copy", lambda m, x, y: y.t().reshape(-1).zero_())
writes("flatten_written", lambda m, x, y: y.flatten().clamp_(min=0))
writes("unflatten_written", lambda m, x, y: y.unflatten(1, (2, 4))[:, 1].mul_(-1))
writes("unsqueeze_written", lambda m, x, y: y.unsqueeze(0)[0, 0].add_(1))
writes("squeeze_written", lambda m, x, y: y.unsqueeze(1).squeeze(1).relu_())
writes("as_strided_written", lambda m, x, y: y.as_strided((4,), (9,)).fill_(0.5))
writes("unfold_written", lambda m, x, y: y.unfold(1, 4, 4)[:, 0].mul_(2))
writes("movedim_written", lambda m, x, y: y.movedim(0, 1)[0].zero_())
writes("expand_as_view_written", lambda m, x, y: y.expand(4, 8)[0].zero_())
writes("view_as_written", lambda m, x, y: y.view_as(x).mul_(x))
writes("alias_by_detach", lambda m, x, y: y.detach().mul_(2))
writes("data_written", lambda m, x, y: y.data.mul_(2))
writes("data_assigned", lambda m, x, y: setattr(y, "data", x))
writes("clone_written_alone", lambda m, x, y: y.clone().mul_(2))
writes("contiguous_is_alias", lambda m, x, y: y.contiguous().mul_(2))
writes("to_same_is_alias", lambda m, x, y: y.to(torch.float32).mul_(2))
writes("to_other_is_copy", lambda m, x, y: y.to(torch.int32).mul_(2))
writes("float_is_alias", lambda m, x, y: y.float().add_(1))
writes("type_is_alias", lambda m, x, y: y.type(torch.float32).add_(1))
writes("out_argument", lambda m, x, y: torch.add(y, x, out=y))
writes("out_of_matmul", lambda m, x, y: torch.mul(x, 2, out=y))
writes("set_by_lerp", lambda m, x, y: y.lerp_(x, 0.25))
writes("addcmul_in_place", lambda m, x, y: y.addcmul_(x, x, value=0.5))
writes("pow_in_place", lambda m, x, y: y.pow_(2))
writes("exp_in_place", lambda m, x, y: y.clamp_(max=1).exp_())
writes("tril_in_place", lambda m, x, y: y.tril_())
writes("loop_over_rows", lambda m, x, y: _loop(y))
writes("rows_swapped", lambda m, x, y: _swap(y))
writes("rows_swapped_aliased", lambda m, x, y: _swap_aliased(y))
writes("chain_of_views", lambda m, x, y: _chain(y))
writes("twice_through_views", lambda m, x, y: (y[0].add_(1), y[:, 0].mul_(2)))


def _read_before_write(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    view, before = y[:, :4], y * 1.0
    y.mul_(2)
    return before + torch.cat([view, view], 1)


def _view_sees_later_write(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    row = y[0]
    y += 1
    return row * 2


def _canvas(m: Any, x: Tensor) -> Tensor:
    canvas = torch.zeros(4, 12)
    canvas[:, 2:10] = m.f(x)
    canvas[:, :2] = x[:, :2]
    return canvas


def _empty_filled(m: Any, x: Tensor) -> Tensor:
    out = torch.empty(2, 4, 8)
    out[0] = m.f(x)
    out[1] = x
    return out


def _new_zeros(m: Any, x: Tensor) -> Tensor:
    out = x.new_zeros(4, 8)
    out[::2] = m.f(x)[1::2]
    return out


def _empty_like_out(m: Any, x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    torch.sigmoid(m.f(x), out=out)
    return out


def _input_written(m: Any, x: Tensor) -> Tensor:
    x += 1
    return m.f(x)


def _input_clamped(m: Any, x: Tensor) -> Tensor:
    return m.f(x.clamp_(-1, 1)) + x


def _input_column_written(m: Any, x: Tensor) -> Tensor:
    x[:, 0] = 0
    return m.f(x) + x


def _returned_view(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = m.f(x)
    part = y[:, :4]
    part.mul_(2)
    return y, part


def _image_channels(m: Any, x: Tensor) -> Tensor:
    y = m.c(x)
    y[:, ::2] = F.relu(y[:, ::2])
    return y


def _image_region(m: Any, x: Tensor) -> Tensor:
    y = m.c(x)
    y[:, :, 2:6, 2:6] *= 0.5
    y[:, :, 0, :] = 0
    return y


def _normalised_in_place(m: Any, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 0].sub_(0.485).div_(0.229)
    x[:, 1].sub_(0.456).div_(0.224)
    return m.c(x)


def _focus(m: Any, x: Tensor) -> Tensor:
    return m.c(torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1))


def _shift_channels(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    out = torch.zeros_like(y)
    out[:, :-1, :2] = y[:, 1:, :2]
    out[:, 1:, 2:4] = y[:, :-1, 2:4]
    out[:, :, 4:] = y[:, :, 4:]
    return out


CASES.vectors(
    read_before_write=_read_before_write,
    view_sees_later_write=_view_sees_later_write,
    canvas=_canvas,
    empty_filled=_empty_filled,
    new_zeros=_new_zeros,
    empty_like_out=_empty_like_out,
    input_written=_input_written,
    input_clamped=_input_clamped,
    input_column_written=_input_column_written,
    returned_view=_returned_view,
    res2net=_res2net,
    expanded_row=lambda m, x: m.f(x)[:1].expand(4, 8) + x,
    broadcast_tensors=lambda m, x: sum(torch.broadcast_tensors(m.f(x), x[:, :1])),
    strided_slices=lambda m, x: m.f(x)[::2, 1::3],
    flipped=lambda m, x: m.f(x).flip(1) + x.flip(0),
    rolled=lambda m, x: torch.roll(m.f(x), (1, -2), (0, 1)),
    transposed_output=lambda m, x: m.f(x).t(),
    permuted_product=lambda m, x: m.f(x).t() @ x,
)
CASES.images(
    image_channels=_image_channels,
    image_region=_image_region,
    normalised_in_place=_normalised_in_place,
    permuted_image=lambda m, x: m.c(x).permute(0, 2, 3, 1),
    channels_last_inside=lambda m, x: m.c(x.contiguous(memory_format=torch.channels_last)) * 2,
    rot90=lambda m, x: torch.rot90(m.c(x), 1, (2, 3)),
    flattened_channels_last=lambda m, x: m.c(x).permute(0, 2, 3, 1).reshape(1, -1),
)
CASES.tokens(shift_tokens=_shift_channels)
CASES.function("focus", _focus, IMAGE, c=lambda: conv(12, 8))
CASES.function("transposed_input", lambda m, x: m.f(x), viewed((8, 4), Tensor.t), f=dense)
CASES.function("permuted_input", lambda m, x: m.f(x), viewed((8, 1, 6), lambda x: x.permute(1, 2, 0)), f=dense)
CASES.function(
    "channels_last_input",
    lambda m, x: m.c(x).flatten(1),
    viewed((1, 3, 8, 8), lambda x: x.contiguous(memory_format=torch.channels_last)),
    c=conv,
)
CASES.function("nhwc_view_input", lambda m, x: m.c(x), viewed((1, 8, 8, 3), lambda x: x.permute(0, 3, 1, 2)), c=conv)
CASES.function("strided_input", lambda m, x: m.f(x) + x, viewed((4, 16), lambda x: x[:, ::2]), f=dense)
CASES.function("expanded_input", lambda m, x: m.f(x), viewed((1, 8), lambda x: x.expand(4, 8)), f=dense)
CASES.function("flipped_input", lambda m, x: m.f(x), viewed((4, 8), lambda x: x.flip(1)), f=dense)
CASES.function("same_tensor_twice", lambda m, x, y: m.f(x) - y, VECTOR, VECTOR, f=dense)
CASES.function(
    "two_layouts", lambda m, x, y: m.f(x) * y, TOKENS, viewed((1, 8, 6), lambda x: x.transpose(1, 2)), f=dense
)
