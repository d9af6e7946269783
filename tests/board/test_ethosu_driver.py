"""Images for silicon: Arm's driver in the stand-in's place, as a library or as its sources."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import store
from tests.npu.ethosu import mixed_network

from deuteron import api
from deuteron.board import boards, ethosu_driver, firmware_record, image, qemu
from deuteron.board import library as library_of_boards
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.override import EthosU, check_symbol
from deuteron.board.toolchain import PREFIX, Source, Toolchain
from deuteron.errors import DeuteronError

BOARD = boards.load("an547")
MAX_CODE = 3000
"""Maximum bytes of the executor with the Ethos-U's part, without the driver."""

MAX_CODE_WITH_DRIVER = 4500
"""The same with the API of Arm's driver as we have it, which runs nothing without the simulator below."""

HEADER = """\
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define ETHOSU_SEMAPHORE_WAIT_FOREVER UINT64_MAX
struct ethosu_driver { uint32_t words[40]; };
#define ethosu_release_driver ethosu_release_driver_of_the_stub
int ethosu_init(struct ethosu_driver *drv, void *const base, const void *fast, const size_t bytes, uint32_t secure,
                uint32_t privileged);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *data, const int size, uint64_t *const bases,
                     const size_t *sizes, const int count, void *user);
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
void ethosu_irq_handler(struct ethosu_driver *drv);
void *ethosu_semaphore_create(void);
void ethosu_semaphore_destroy(void *sem);
int ethosu_semaphore_take(void *sem, uint64_t timeout);
int ethosu_semaphore_give(void *sem);
void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg);
void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg);
"""
"""Names of Arm's header that the firmware needs, and a name that only this header has."""

SOURCE = """\
#include "ethosu_driver.h"
#ifdef ETHOSU
#if !defined(ETHOSU55) || ETHOSU_MACS != 128 || ETHOSU_LOG_ENABLE
#error "not for this accelerator"
#endif
#include <cmsis_compiler.h>
#else
#define __WFE()
#endif
static struct ethosu_driver *only;
int ethosu_init(struct ethosu_driver *drv, void *const base, const void *fast, const size_t bytes, uint32_t secure,
                uint32_t privileged)
{
    only = drv;
    return 0;
}
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *data, const int size, uint64_t *const bases,
                     const size_t *sizes, const int count, void *user)
{
    __WFE();
    return 0;
}
struct ethosu_driver *ethosu_reserve_driver(void) { return only; }
void ethosu_release_driver(struct ethosu_driver *drv) {}
void ethosu_irq_handler(struct ethosu_driver *drv) {}
"""


RECORDED = """\
int ethosu_invoke_async(struct ethosu_driver *drv, const void *data, const int size, uint64_t *const bases,
                        const size_t *sizes, const int count, void *user);
int ethosu_wait(struct ethosu_driver *drv, bool block);
"""
"""The functions that an image calls instead of `ethosu_invoke_v3` if it records events."""

COUNTERS = library_of_boards.FIRMWARE / "tests" / "silicon" / "pmu_ethosu.h"
COUNTED = """\
#include "ethosu_driver.h"
#include "pmu_ethosu.h"
int ethosu_invoke_async(struct ethosu_driver *drv, const void *data, const int size, uint64_t *const bases,
                        const size_t *sizes, const int count, void *user)
{
    ethosu_inference_begin(drv, user);
    return 0;
}
int ethosu_wait(struct ethosu_driver *drv, bool block)
{
    ethosu_inference_end(drv, 0);
    return 0;
}
void ETHOSU_PMU_Enable(struct ethosu_driver *drv) {}
void ETHOSU_PMU_Disable(struct ethosu_driver *drv) {}
void ETHOSU_PMU_Set_EVTYPER(struct ethosu_driver *drv, uint32_t num, enum ethosu_pmu_event_type type) {}
void ETHOSU_PMU_CYCCNT_Reset(struct ethosu_driver *drv) {}
void ETHOSU_PMU_EVCNTR_ALL_Reset(struct ethosu_driver *drv) {}
void ETHOSU_PMU_CNTR_Enable(struct ethosu_driver *drv, uint32_t mask) {}
void ETHOSU_PMU_CNTR_Disable(struct ethosu_driver *drv, uint32_t mask) {}
uint64_t ETHOSU_PMU_Get_CCNTR(struct ethosu_driver *drv) { return 0; }
uint32_t ETHOSU_PMU_Get_EVCNTR(struct ethosu_driver *drv, uint32_t num) { return 0; }
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A driver as its repository has it."""
    folder = tmp_path / "checkout"
    for name, text in {
        "include/ethosu_driver.h": HEADER,
        "src/ethosu_driver.c": SOURCE,
        "src/ethosu_pmu.c": "int ethosu_pmu;\n",
        "src/ethosu_device_u55_u65.c": "int ethosu_device_u55;\n",
        "src/ethosu_device_u85.c": "#error another NPU's\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def library(checkout: Path, tmp_path: Path) -> Path:
    """The same as a library with its headers."""
    folder = tmp_path / "library"
    (folder / "lib").mkdir(parents=True)
    (folder / "ethosu_driver.h").write_text(HEADER)
    made = folder / "driver.o"
    flags = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Os", "-ffunction-sections", "-I", folder)
    subprocess.run((f"{PREFIX}gcc", *flags, "-c", checkout / "src/ethosu_driver.c", "-o", made), check=True)
    subprocess.run((f"{PREFIX}ar", "rcs", folder / "lib" / "libethosu.a", made), check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["checkout", "library"])
def test_an_image_for_silicon_has_nothing_of_the_stand_in(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    options = FirmwareOptions(ethosu_driver=str(request.getfixturevalue(kind)))
    made = image.build(mixed_network.built(), BOARD, options, Toolchain.find(image.OBJECTS))
    image.write(made, tmp_path / "firmware", force=False)
    assert made.record.sizes.module("stand_in").total == 0
    assert 20 < made.record.sizes.module("npu_driver").total < 200
    assert b"ethosu_release_driver_of_the_stub" in made.files[firmware_record.ELF]
    assert made.record.stack.gaps == ()
    listing = subprocess.run(
        (f"{PREFIX}objdump", "-d", "--disassemble=dtn_npu_run_apart", tmp_path / "firmware" / firmware_record.ELF),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # The core's copies are in memory before the NPU is started, and it is done before they are read.
    assert [word for word in re.findall(r"\t(dmb|blx)\b", listing) if word][-3:] == ["dmb", "blx", "dmb"]
    assert api.kernels(tmp_path / "firmware").ethosu is EthosU.DRIVER
    assert api.kernels(store.firmware(mixed_network.built(), BOARD)).ethosu is EthosU.STAND_IN
    with pytest.raises(DeuteronError) as raised:
        qemu.run(tmp_path / "firmware", made.record, BOARD, [])
    assert str(raised.value) == (
        f"`{tmp_path / 'firmware'}` was linked with a driver for an Ethos-U, which the emulator of `an547` does not "
        "have\n\nhint: build the firmware without `--ethos-u-driver`: the core then executes the NPU's commands"
    )


@pytest.mark.full
@pytest.mark.slow
def test_an_ensemble_links_with_its_own_npu(checkout: Path) -> None:
    """The port has the devices that the wait for the NPU needs."""
    options = FirmwareOptions(harness=firmware_record.Harness.SERIAL, ethosu_driver=str(checkout))
    board = boards.load("alif_ensemble_he")
    made = image.build(mixed_network.built(), board, options, Toolchain.find(image.OBJECTS))
    assert made.record.sizes.module("stand_in").total == 0
    assert made.record.sizes.module("npu_driver").total > 20


@pytest.mark.slow
def test_a_profiled_image_for_silicon_reads_the_npus_own_counters(checkout: Path, tmp_path: Path) -> None:
    (checkout / "include/ethosu_driver.h").write_text(HEADER + RECORDED)
    (checkout / "src/ethosu_pmu.c").write_text(COUNTED)
    shutil.copy(COUNTERS, checkout / "include")
    options = FirmwareOptions(ethosu_driver=str(checkout), use_profiling=True)
    made = image.build(mixed_network.built(), BOARD, options, Toolchain.find(image.OBJECTS))
    (tmp_path / firmware_record.ELF).write_bytes(made.files[firmware_record.ELF])
    for symbol in ("dtn_port_npu_cycles", "dtn_port_npu_counter", "ethosu_inference_begin", "ethosu_inference_end"):
        check_symbol(tmp_path / firmware_record.ELF, symbol)


@pytest.mark.slow
def test_the_executor_with_an_ethosu_and_driver_is_small_and_takes_two_functions_of_libc(checkout: Path) -> None:
    options = FirmwareOptions(ethosu_driver=str(checkout))
    made = image.build(mixed_network.built(), BOARD, options, Toolchain.find(image.OBJECTS))
    ours = made.record.sizes.module("executor", "io", "driver")
    assert 2000 < ours.text + ours.rodata <= MAX_CODE
    sources = [s for s in library_of_boards.core(BOARD) if s.name.partition(".")[0] in ("executor", "io")]
    driver = Source("ethosu_driver.driver", library_of_boards.FIRMWARE / "src/ethosu_driver/driver.c")
    compiled = Toolchain.find(image.OBJECTS).compile((*sources, driver), BOARD.flags, library_of_boards.FIRMWARE)
    listed = subprocess.run((f"{PREFIX}size", compiled[-1].path), capture_output=True, text=True, check=True).stdout
    of_driver = int(listed.splitlines()[1].split()[0])
    assert 1000 < of_driver
    assert ours.text + ours.rodata + of_driver <= MAX_CODE_WITH_DRIVER
    said = subprocess.run(
        (f"{PREFIX}nm", *(item.path for item in compiled)), capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in said.stdout.splitlines() if line.startswith(" ") or line[:1].isalnum()]
    undefined = {words[1] for words in lines if words[0] == "U"}
    others = {name for name in undefined if not name.startswith(("dtn_", "ethosu_", "neutron"))}
    assert others <= {"memcpy", "memset"}


HINT = "\n\nhint: give a checkout of Arm's driver, or a directory with its headers and its one library"


def test_what_holds_no_driver_is_refused(checkout: Path, library: Path, tmp_path: Path) -> None:
    def refusal(directory: Path, *accelerators: str) -> str:
        with pytest.raises(DeuteronError) as raised:
            ethosu_driver.find(directory, accelerators)
        return str(raised.value)

    assert refusal(checkout) == (
        "`--ethos-u-driver` needs a program with Ethos-U partitions; this one has none\n\nhint: leave it out"
    )
    assert refusal(checkout, "ethos-u55-128", "ethos-u55-256") == (
        "a driver supports one accelerator, but the program is for `ethos-u55-128`, `ethos-u55-256`"
    )
    assert refusal(tmp_path, "ethos-u55-128") == (
        f"`{tmp_path}` has no `ethosu_driver.h`, and neither has its `include`{HINT}"
    )
    (checkout / "src/ethosu_driver.c").unlink()
    assert refusal(checkout, "ethos-u55-128") == f"`{checkout}` has no library and no `src/ethosu_driver.c`{HINT}"
    (library / "libother.a").write_bytes(b"")
    assert refusal(library, "ethos-u55-128") == f"`{library}` has 2 libraries and no `src/ethosu_driver.c`{HINT}"


@pytest.mark.slow
def test_a_project_with_executorchs_delegate_gets_the_override_or_no_image(tmp_path: Path) -> None:
    source, build = Path(__file__).parent / "consumer_arm", tmp_path / "build"
    program = Path(sys.executable).with_name("deuteron")
    package = (f"-Ddeuteron_DIR={library_of_boards.FIRMWARE / 'cmake'}", f"-DDEUTERON_PROGRAM={program}")
    subprocess.run(("cmake", "-S", source, "-B", build, *package), check=True, capture_output=True)
    subprocess.run(("cmake", "--build", build, "--target", "right"), check=True, capture_output=True)
    subprocess.run((build / "right",), check=True)
    done = subprocess.run(("cmake", "--build", build, "--target", "wrong"), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "error: `wrong` has the weak default of `arm_ethos_io_memcpy`, but an override was requested" in done.stderr


def _linked(folder: Path, library: int, user: int) -> str:
    """Return the linker's message for a driver of one API release and a caller of `ethosu_init` of another."""
    (folder / "user.c").write_text(
        '#include "ethosu_driver.h"\nstatic struct ethosu_driver drv;\n'
        "int main(void)\n{\n    return ethosu_init(&drv, &drv, NULL, 0, 0, 0);\n}\n",
        "utf-8",
    )
    flags = f"-I{library_of_boards.FIRMWARE / 'include'}", "-ffunction-sections", "-fdata-sections", "-O2"
    sources = (library_of_boards.FIRMWARE / "src/ethosu_driver/driver.c", library), (folder / "user.c", user)
    for source, release in sources:
        words = "cc", *flags, f"-DDTN_ETHOSU_RELEASE={release}", "-c", source, "-o", folder / f"{source.stem}.o"
        subprocess.run(words, check=True)
    words = "cc", "-Wl,--gc-sections", "user.o", "driver.o"
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("library", [0, 1])
def test_a_library_for_another_release_of_the_api_does_not_link(library: int, tmp_path: Path) -> None:
    other = 1 - library
    assert f"undefined reference to `dtn_ethosu_release_{other}'" in _linked(tmp_path, library, other)
    assert "dtn_ethosu_release" not in _linked(tmp_path, library, library)


def test_finding_a_configuration_takes_little_stack(tmp_path: Path) -> None:
    """A device without a configuration finds one for each job."""
    folder = library_of_boards.FIRMWARE
    flags = "-std=c99", "-Os", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-fstack-usage"
    words = "arm-none-eabi-gcc", *flags, f"-I{folder / 'include'}", "-c", folder / "src/ethosu/machine.c", "-o", "m.o"
    subprocess.run(words, cwd=tmp_path, check=True)
    used = {line.split("\t")[0].split(":")[-1]: int(line.split("\t")[1]) for line in (tmp_path / "m.su").open()}
    assert 0 < used["dtn_ethosu_config_of"] + used.get("read_actions", 0) <= 128


def test_there_are_two_releases_of_the_api(tmp_path: Path) -> None:
    words = "cc", f"-I{library_of_boards.FIRMWARE / 'include'}", "-DDTN_ETHOSU_RELEASE=7", "-x", "c", "-c", "-"
    text = '#include "ethosu_driver.h"\n'
    done = subprocess.run(words, input=text, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "DTN_ETHOSU_RELEASE is 0, for the API of Arm's driver 0.16, or 1, for that of 1.0" in done.stderr
