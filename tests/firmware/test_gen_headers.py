"""The generated C header is current, and stands for the Python definitions."""

import subprocess
import sys
from pathlib import Path

from deuteron.kernels.catalogue import KERNELS

CHECKOUT = Path(__file__).parents[2]
GENERATOR = CHECKOUT / "tools" / "gen_headers.py"
HEADER = CHECKOUT / "firmware" / "include" / "deuteron" / "microcode.h"


def run(generator: Path) -> subprocess.CompletedProcess[str]:
    """`generator --check`."""
    return subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True, check=False)


def test_committed_header_is_current() -> None:
    done = run(GENERATOR)
    assert (done.returncode, done.stderr) == (0, "")


def test_stale_header_is_found(tmp_path: Path) -> None:
    generator = tmp_path / "tools" / "gen_headers.py"
    header = tmp_path / "firmware" / "include" / "deuteron" / "microcode.h"
    generator.parent.mkdir()
    header.parent.mkdir(parents=True)
    generator.write_bytes(GENERATOR.read_bytes())
    header.write_text(HEADER.read_text().replace("DTN_CHANNELS UINT32_C(4)", "DTN_CHANNELS UINT32_C(5)"))
    done = run(generator)
    assert done.returncode == 1
    assert done.stderr == "error: microcode.h is stale\n\nhint: run tools/gen_headers.py\n"


def test_every_kernel_and_field_is_there() -> None:
    text = HEADER.read_text()
    for kernel in KERNELS:
        assert f"DTN_KERNEL_{kernel.name.upper()} = {kernel.kind},\n" in text
        record = text[: text.index(f"}} dtn_{kernel.name}_params_t;")].rpartition("typedef struct {\n")[2]
        lengths = ((name, f"[{count}]" if count > 1 else "") for name, count in kernel.params.field_words())
        assert record == "".join(f"    int32_t {name}{length};\n" for name, length in lengths)
