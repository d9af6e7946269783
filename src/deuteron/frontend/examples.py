"""Lists the example models: those that `deuteron models` prints and `deuteron build NAME` accepts.

They are in `examples/models/` of the source checkout. Each is a file with a function that returns a module, example
inputs and calibration batches, as any user's model.
"""

from dataclasses import dataclass
from pathlib import Path

from deuteron.errors import InputError

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "models"


@dataclass(frozen=True, slots=True)
class ExampleModel:
    """One model: its function, input and output shapes, and a summary.

    `reference` marks the models that all benches and tests of whole models use.
    """

    name: str
    file: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    weights: str
    summary: str
    reference: bool = True

    @property
    def path(self) -> Path:
        """The file that holds the function `name`.

        Raises:
            InputError: when Deuteron is not installed from a source checkout.
        """
        path = FOLDER / self.file
        if not path.is_file():
            raise InputError(
                f"the example model `{self.name}` is not installed: `{path}` does not exist",
                hint="the examples are part of the source checkout; clone it and install with `pip install -e .`",
            )
        return path


EXAMPLES: tuple[ExampleModel, ...] = (
    ExampleModel(
        "digits",
        "digits.py",
        (1, 1, 8, 8),
        (1, 10),
        "trained when built",
        "small CNN on scikit-learn's handwritten digits",
    ),
    ExampleModel("ds_cnn", "mlperf_tiny.py", (1, 1, 49, 10), (1, 12), "seeded", "MLPerf Tiny keyword spotting: DS-CNN"),
    ExampleModel(
        "resnet8", "mlperf_tiny.py", (1, 3, 32, 32), (1, 10), "seeded", "MLPerf Tiny image classification: ResNet-8"
    ),
    ExampleModel(
        "mobilenet_v1_025",
        "mlperf_tiny.py",
        (1, 3, 96, 96),
        (1, 2),
        "seeded",
        "MLPerf Tiny visual wake words: MobileNetV1 0.25",
    ),
    ExampleModel(
        "deep_autoencoder",
        "mlperf_tiny.py",
        (1, 640),
        (1, 640),
        "seeded",
        "MLPerf Tiny anomaly detection: deep autoencoder",
    ),
    ExampleModel("mobilenet_v2", "mobilenet_v2.py", (1, 3, 224, 224), (1, 1000), "seeded", "MobileNetV2 1.0 224"),
    ExampleModel(
        "mobilenet_v1",
        "mobilenet_v1.py",
        (1, 3, 224, 224),
        (1, 1000),
        "seeded",
        "MobileNetV1 1.0 224, whose time on silicon is published",
        reference=False,
    ),
)
"""Models that run completely on the NPU."""

COMBINED: tuple[ExampleModel, ...] = (
    ExampleModel(
        "mobilenet_v3_blocks",
        "mixed.py",
        (1, 3, 32, 32),
        (1, 10),
        "seeded",
        "three blocks like MobileNetV3's: hardswish, squeeze and excite",
    ),
    ExampleModel(
        "encoder_decoder",
        "mixed.py",
        (1, 1, 32, 32),
        (1, 2, 32, 32),
        "seeded",
        "encoder and decoder: transposed convolution, upsampling, concatenation",
    ),
    ExampleModel("attention", "mixed.py", (1, 1, 16, 32), (1, 16, 32), "seeded", "one head of attention"),
    ExampleModel(
        "refused_middle",
        "mixed.py",
        (1, 3, 32, 32),
        (1, 10),
        "seeded",
        "network with operators in its middle that the NPU refuses",
    ),
)
"""Models that run partly on the NPU and partly on the CPU."""

REFERENCES = tuple(example for example in EXAMPLES if example.reference)
"""The reference models."""


def find(name: str) -> ExampleModel | None:
    """Return the example of that name; None if there is none."""
    return next((example for example in (*EXAMPLES, *COMBINED) if example.name == name), None)
