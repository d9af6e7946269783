"""Bundles on this machine: the emitted files and the firmware compiled with the host's compiler, run through ctypes."""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions, emit

HERE = Path(__file__).parent
FIRMWARE = HERE.parents[1] / "firmware"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wmissing-prototypes", "-Wconversion")


def command(*words: str | Path) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def compile_library(build: Path) -> None:
    """Build the firmware library for this machine in a directory."""
    command("cmake", "-S", FIRMWARE, "-B", build, "-DCMAKE_BUILD_TYPE=Release")
    command("cmake", "--build", build, "--target", "deuteron_core", "--parallel", "2")


class HostFirmware:
    """The firmware library, as `compile_library` has built it in a directory, and the host's port or another one."""

    def __init__(self, build: Path, port: Path = FIRMWARE / "port" / "host" / "port.c") -> None:
        self.build = build
        self._archive = build / "libdeuteron_core.a"
        self._port = port

    def load(
        self, bundle: Bundle, folder: Path, options: EmitOptions = EmitOptions(), extra: Sequence[Path] = ()
    ) -> "HostBundle":
        """The bundle, written to a folder, compiled with every warning an error, and initialised.

        Operators that the firmware does not have are in the `extra` files.
        """
        folder.mkdir()
        for name, data in emit(bundle, options).items():
            (folder / name).write_bytes(data)
        include = ("-I", folder, "-I", FIRMWARE / "include")
        symbol, library = options.symbol, folder / "bundle.so"
        names = (f"-DBUNDLE={symbol}", f"-DMEMORIES={symbol}_memories")
        command("cc", *WARNINGS, "-fPIC", "-c", *include, folder / f"{symbol}.c", "-o", folder / "tables.o")
        command("cc", *WARNINGS, "-fPIC", "-c", *include, *names, HERE / "host.c", "-o", folder / "host.o")
        (data,) = folder.glob(f"{symbol}_data.[Sc]")
        parts = (folder / "tables.o", folder / "host.o", data, *extra, self._port, self._archive)
        command("cc", "-shared", "-fPIC", "-Wl,-Bsymbolic", *include, *parts, "-o", library)
        return HostBundle(bundle, library)


class HostBundle:
    """A compiled bundle, initialised."""

    def __init__(self, bundle: Bundle, library: Path) -> None:
        self._bundle = bundle
        self._library = ctypes.CDLL(str(library))
        self._call("host_init")

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """The outputs of one run."""
        assert [len(data) for data in inputs] == [self._bundle.values[index].bytes for index in self._bundle.inputs]
        given = [ctypes.create_string_buffer(data, len(data)) for data in inputs]
        taken = [ctypes.create_string_buffer(self._bundle.values[index].bytes) for index in self._bundle.outputs]
        self._call("host_run", _pointers(given), _pointers(taken))
        return [buffer.raw for buffer in taken]

    def run_bound(self, inputs: Sequence[bytes]) -> tuple[list[bytes], list[bool]]:
        """The outputs of one run with what may be bound in buffers; for each input and output, whether it is."""
        given = [_Aligned(data) for data in inputs]
        taken = [_Aligned(bytes(self._bundle.values[index].bytes)) for index in self._bundle.outputs]
        is_bound = (ctypes.c_uint32 * max(1, len(given) + len(taken)))()
        addresses = [(ctypes.c_void_p * max(1, len(side)))(*(each.address for each in side)) for side in (given, taken)]
        self._call("host_run_bound", *addresses, is_bound)
        return [buffer.content for buffer in taken], [flag != 0 for flag in is_bound]

    def _call(self, function: str, *arguments: object) -> None:
        entry = self._library[function]
        entry.restype = ctypes.c_char_p
        sentence: bytes | None = entry(*arguments)
        assert sentence is None, sentence.decode()


class _Aligned:
    """Bytes that start at a multiple of 16."""

    def __init__(self, data: bytes) -> None:
        self._bytes = len(data)
        self._memory = ctypes.create_string_buffer(len(data) + 15)
        self.address = -(-ctypes.addressof(self._memory) // 16) * 16
        ctypes.memmove(self.address, data, len(data))

    @property
    def content(self) -> bytes:
        """The bytes now."""
        return ctypes.string_at(self.address, self._bytes)


def _pointers(buffers: Sequence["ctypes.Array[ctypes.c_char]"]) -> "ctypes.Array[ctypes.c_void_p]":
    return (ctypes.c_void_p * max(1, len(buffers)))(*(ctypes.addressof(buffer) for buffer in buffers))
