"""Blocks of published networks, as cases."""

from typing import Any

from semantic_cases import attention_blocks as attention
from semantic_cases import image_blocks as image
from semantic_cases import sequence_blocks as sequence
from semantic_cases.case import IMAGE, SIGNAL, TOKENS, Cases, ints, normed

CASES = Cases("blocks")
FEATURES = (1, 8, 8, 8)
WORDS = ints(12, 1, 6)


def _add(name: str, make: Any, *inputs: Any) -> None:
    CASES.add(name, lambda: normed(make()), *inputs)


for name, make in {
    "swin": lambda: attention.SwinWindows(0), "swin_shifted": lambda: attention.SwinWindows(2),
    "patch_merging": attention.PatchMerging, "res2net": image.Bottle2neck, "ghost": image.Ghost,
    "shuffle_unit": image.ShuffleUnit, "squeeze_excite": lambda: image.SqueezeExcite("linear"),
    "squeeze_excite_hard": lambda: image.SqueezeExcite("conv"), "efficient_channels": image.EfficientChannels,
    "coordinate_attention": image.CoordinateAttention, "cbam": image.Cbam, "convnext": image.ConvNext,
    "channels_first_norm": image.ChannelsFirstNorm, "mobile_vit": attention.MobileVit, "repvgg": image.RepVgg,
    "yolo_head": image.YoloHead, "mobile_net": image.DepthwiseResidual, "dense_net": image.DenseBlock,
    "involution": image.Involution, "bc_resnet": sequence.KeywordSpotter, "gumbel_gate": sequence.GumbelGate,
}.items():  # fmt: skip
    _add(name, make, FEATURES)
for name, make in {
    "feature_pyramid": image.FeaturePyramid, "center_detector": image.CenterDetector, "unet": image.UNet,
    "espcn": image.Espcn, "vit": attention.Vit, "soft_key_points": image.SpatialTransformer,
}.items():  # fmt: skip
    _add(name, make, IMAGE)
for name, make in {
    "gpt_attention": attention.CausalAttention, "gpt_block": attention.GptBlock, "packed_gru": sequence.PackedGru,
    "additive": attention.AdditiveAttention, "conformer": attention.Conformer,
    "positional_encoding": attention.PositionalEncoding, "llama": attention.RotaryAttention,
    "mixer": attention.MixerBlock,
}.items():  # fmt: skip
    _add(name, make, TOKENS)
for name, make in {
    "gpt": attention.Gpt, "lstm_classifier": sequence.LstmClassifier, "tagger": sequence.GatedTagger,
}.items():  # fmt: skip
    _add(name, make, WORDS)
_add("temporal", sequence.TemporalBlock, SIGNAL)
_add("tasnet", sequence.TasNet, (1, 1, 32))
_add("crnn", sequence.Crnn, (1, 1, 8, 12))
