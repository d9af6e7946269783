"""Affine quantization of a tensor, as TFLite stores it: one frozen value that checks itself."""

from dataclasses import dataclass

import numpy as np

from deuteron.errors import VerifyError


@dataclass(frozen=True, slots=True)
class Quant:
    """Affine quantization: real = scale * (stored - zero_point), per tensor or per channel along `axis`.

    Scales are exact float32 values; formulas treat them as exact rationals.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        if len(self.scales) != len(self.zero_points) or not self.scales:
            raise VerifyError(
                f"quantization has {len(self.scales)} scales and {len(self.zero_points)} zero points; "
                "their numbers must be equal and at least 1"
            )
        if self.axis is None and len(self.scales) != 1:
            raise VerifyError(f"per-tensor quantization has {len(self.scales)} scales instead of 1")
        scales = np.array(self.scales)  # vectorized: models have tens of thousands
        with np.errstate(over="ignore", under="ignore"):
            valid = np.isfinite(scales) & (scales > 0) & (scales.astype(np.float32) == scales)
        if not valid.all():
            raise VerifyError(f"scale {self.scales[int(np.argmin(valid))]!r} is not a positive finite float32 value")

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantization."""
        self._need_per_tensor()
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantization."""
        self._need_per_tensor()
        return self.zero_points[0]

    def _need_per_tensor(self) -> None:
        if self.axis is not None:
            raise VerifyError("a per-tensor quantization is required, found one per channel")
