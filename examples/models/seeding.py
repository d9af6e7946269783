"""Seeded inputs and seeded weights for the reference models that are not trained.

With PyTorch's default initialisation the activations of a deep network shrink layer by layer until every value
quantizes to its zero point, and a comparison of such a network compares nothing. `seeded` therefore sets the batch
norms to the statistics of seeded inputs, as training would, so that every layer works over its whole range.

Deep networks of random weights are also chaotic: one result that rounds the other way in an early layer changes the
logits beyond comparison, as it does in no trained network. So half of each layer's weights point where its inputs
vary, depthwise kernels mostly average, and batch norms are biased so that ReLU clips a fifth of the values, not half.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Example = tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]
"""The result of an example: the module, example inputs, and calibration batches."""

CALIBRATION_BATCHES = 8


def samples(shape: tuple[int, ...], count: int, seed: int) -> Tensor:
    """`count` inputs of `shape`, stacked: smooth structure of differing strength under noise.

    White noise alone would average out in the pooling layers, and all inputs would give nearly the same logits.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn((count, *shape), generator=generator)
    maps = noise if len(shape) == 3 else noise.unsqueeze(1).unsqueeze(1)
    height, width = maps.shape[-2:]
    coarse = torch.randn((count, maps.shape[1], min(4, height), 4), generator=generator)
    smooth = functional.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)
    strength = 0.5 + torch.rand((count, 1, 1, 1), generator=generator)
    return (strength * smooth + 0.3 * maps).reshape(count, *shape)


def seeded(factory: Callable[[], nn.Module], shape: tuple[int, ...]) -> Example:
    """The module with seeded weights and live batch norms, one example input, and calibration batches of one input."""
    torch.manual_seed(0)
    module = factory()
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    for conv in (m for m in module.modules() if isinstance(m, nn.Conv2d) and m.groups > 1):
        nn.init.uniform_(conv.weight, -0.25, 1.0)
    for norm in norms:
        norm.momentum = None  # a plain average over the batches below
        nn.init.uniform_(norm.weight, 0.8, 1.2)
        nn.init.uniform_(norm.bias, 0.3, 1.3)
    module.train()
    layers = [m for m in module.modules() if isinstance(m, nn.Linear) or (isinstance(m, nn.Conv2d) and m.groups == 1)]
    hooks = [layer.register_forward_pre_hook(_look_where_inputs_differ) for layer in layers]
    with torch.no_grad():
        module(samples(shape, 16, seed=100))
        for hook in hooks:
            hook.remove()
        for norm in norms:
            norm.reset_running_stats()
        for step in range(2):
            module(samples(shape, 16, seed=100 + step))
        for norm in norms:
            norm.momentum = 0.1  # PyTorch's own, with which training goes on
    module.eval()
    inputs = samples(shape, 1 + CALIBRATION_BATCHES, seed=1)
    return module, (inputs[:1],), [(x.unsqueeze(0),) for x in inputs[1:]]


def _look_where_inputs_differ(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
    """Turns half of a layer's weights towards the directions along which its inputs vary, as training does."""
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    x = args[0]
    if isinstance(layer, nn.Conv2d):
        if layer.kernel_size != (1, 1):
            return
        x = x.permute(0, 2, 3, 1)
    x = x.reshape(-1, x.shape[-1])
    rows = x[torch.randperm(len(x))[:64]]
    mean = rows.mean(0)
    aligned = torch.randn(layer.weight.shape[0], len(rows)) @ (rows - mean)
    weight = aligned / aligned.std() + torch.randn_like(aligned)
    weight *= 0.5 / ((rows - mean) @ weight.T).std()
    layer.weight.copy_(weight.reshape(layer.weight.shape))
    if layer.bias is not None:
        layer.bias.copy_(-weight @ mean)
