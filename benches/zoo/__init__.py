"""The zoo of networks that benches measure: plain PyTorch with seeded weights, as users write it.

`images.py` and `sequences.py` have the ordinary networks of this table, `large_images.py` those that need stripes,
`published.py` those of published times, `quality_defects.py` networks with defects, and `pattern.py` small patterns of
layers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from zoo import images, sequences


@dataclass(frozen=True, slots=True)
class Network:
    """A network by name: how it is made, and the shapes of its inputs; `tokens` are numbers below that instead."""

    name: str
    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    tokens: int = 0

    def module(self) -> nn.Module:
        """The module with seeded weights, whose batch norms have seen samples."""
        torch.manual_seed(0)
        module = self.make().train()
        norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = None  # a plain average
            nn.init.uniform_(norm.weight, 0.8, 1.2)
            nn.init.uniform_(norm.bias, -0.3, 0.6)
        if norms:
            with torch.no_grad():
                for sample in self.samples(16, seed=7):
                    module(*sample)
        return module.eval()

    def samples(self, count: int, seed: int) -> list[tuple[Tensor, ...]]:
        """Seeded inputs."""
        generator = torch.Generator().manual_seed(seed)

        def draw(shape: tuple[int, ...]) -> Tensor:
            if self.tokens:
                return torch.randint(self.tokens, shape, generator=generator)
            return torch.randn(shape, generator=generator)

        return [tuple(draw(shape) for shape in self.shapes) for _ in range(count)]


NETWORKS = (
    Network("accelerometer", sequences.Accelerometer, ((1, 3, 64),)),
    Network("tcn", sequences.TemporalConvolutions, ((1, 4, 48),)),
    Network("gru", partial(sequences.Recurrent, nn.GRU), ((1, 12, 10),)),
    Network("lstm", partial(sequences.Recurrent, nn.LSTM), ((1, 12, 10),)),
    Network("transformer", sequences.TransformerEncoder, ((1, 16, 8),)),
    Network("causal_attention", sequences.CausalAttention, ((1, 12, 16),)),
    Network("mlp_mixer", sequences.Mixer, ((1, 1, 16, 16),)),
    Network("two_in_two_out", sequences.TwoInTwoOut, ((1, 1, 16, 16), (1, 6))),
    Network("embedding_mean", sequences.EmbeddingMean, ((1, 12),), tokens=sequences.EmbeddingMean.VOCABULARY),
    Network("rms_norm", sequences.RootMeanSquare, ((1, 24),)),
    Network("gated", sequences.Gated, ((1, 1, 64),)),
    Network("squeeze_excite", images.SqueezeExcite, ((1, 3, 24, 24),)),
    Network("inception", images.Inception, ((1, 3, 20, 20),)),
    Network("unet_bilinear", partial(images.UNet, bilinear=True), ((1, 1, 24, 24),)),
    Network("unet_transposed", partial(images.UNet, bilinear=False), ((1, 1, 24, 24),)),
    Network("shuffle_net", images.ShuffleNet, ((1, 3, 24, 24),)),
    Network(
        "group_norm",
        lambda: images.Normalised(nn.GroupNorm(4, 16), nn.GroupNorm(1, 24)),
        ((1, 3, 16, 16),),
    ),
    Network(
        "instance_norm",
        lambda: images.Normalised(nn.InstanceNorm2d(16, affine=True), nn.InstanceNorm2d(24)),
        ((1, 3, 16, 16),),
    ),
    Network("autoencoder", images.TransposedAutoencoder, ((1, 1, 14, 14),)),
    Network("dense_block", images.DenseBlock, ((1, 3, 16, 16),)),
    Network("mobilenet_v3", images.MobileNetV3Block, ((1, 3, 24, 24),)),
    Network("dilated_separable", images.DilatedSeparable, ((1, 1, 20, 20),)),
    Network("pooled_shortcut", images.PooledShortcut, ((1, 3, 23, 23),)),
    Network("super_resolution", images.SuperResolution, ((1, 1, 12, 12),)),
    Network("segmentation", images.Segmentation, ((1, 3, 20, 20),)),
    Network("siamese", images.Siamese, ((1, 1, 16, 16), (1, 1, 16, 16))),
)

NAMES = tuple(network.name for network in NETWORKS)
