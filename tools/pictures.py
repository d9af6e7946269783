"""The pictures of README and guides: drawings of small models, and their pages as headless Chromium shows them.

    make pictures

Nothing here needs PyTorch. Chromium and its driver are Debian's (`tools/debian-packages.sh boards`); the drawings of
memories are the same on every computer, the pixels of a page depend on the Chromium and the fonts that are installed.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from deuteron import api
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import FullyConnected
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.tflite.quantization import Quant

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "digits.tflite"
SMALL_NPU = "mcxn947"
"""A target whose SRAM does not hold the weights of `layers`."""
ARGUMENTS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1200,960",
)
CHOOSE_LONGEST = """
const kernels = report.timeline.boxes.filter((box) => box.colour === "kernel");
report.timeline.choose(kernels.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a)));
"""


def layers(number: int = 4, width: int = 512) -> bytes:
    """A TFLite file of linear layers with random weights, which are most of it."""
    rng = np.random.default_rng(0)
    activation, weight, bias = (Quant((scale,), (0,)) for scale in (2.0**-4, 2.0**-9, 2.0**-13))
    image = TensorType((1, width), DType.INT8, activation)
    tensors, ops = [Tensor("x0", image)], list[FullyConnected]()
    for i in range(number):
        weights = rng.integers(-127, 128, (width, width), dtype=np.int8).tobytes()
        tensors += (
            Tensor(f"weights{i}", TensorType((width, width), DType.INT8, weight), weights),
            Tensor(f"bias{i}", TensorType((width,), DType.INT32, bias), bytes(4 * width)),
            Tensor(f"x{i + 1}", image),
        )
        ops.append(FullyConnected(inputs=(f"x{i}", f"weights{i}", f"bias{i}"), outputs=(f"x{i + 1}",), origin=(i,)))
    return emit(Graph("layers", tuple(tensors), ("x0",), (f"x{number}",), tuple(ops)))


def browser() -> webdriver.Chrome:
    """Chromium without a window."""
    chromium, driver = (shutil.which(program) for program in ("chromium", "chromedriver"))
    if not chromium or not driver:
        sys.exit("error: `chromium` or `chromedriver` is missing: `tools/debian-packages.sh boards` installs them")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*ARGUMENTS, "--window-size=1200,960", *(("--no-sandbox",) if os.geteuid() == 0 else ())):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


def main() -> None:
    """Write the pictures into a directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "docs" / "pictures")
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    api.plan(EXAMPLE, svg=directory / "plan.svg", force=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        api.profile(EXAMPLE, on="sim", output=work / "report")
        (work / "layers.tflite").write_bytes(layers())
        api.profile(work / "layers.tflite", target=SMALL_NPU, on="sim", output=work / "prefetch")
        chromium = browser()
        try:
            chromium.get((work / "report" / "report.html").as_uri())
            chromium.execute_script(CHOOSE_LONGEST)
            chromium.save_screenshot(directory / "report.png")
            chromium.get((work / "prefetch" / "report.html").as_uri())
            chromium.find_element(By.ID, "timeline").screenshot(str(directory / "prefetch.png"))
        finally:
            chromium.quit()


if __name__ == "__main__":
    main()
