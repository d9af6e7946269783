"""ExecuTorch's ETRecord of a build: what its Inspector resolves the events of runs with."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any, cast

from deuteron.npu.families import family_of
from deuteron.npu.neutron.kernels.names import event_name
from deuteron.npu.provenance import KernelOrigin

_METHOD = "forward"
_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every entry, so that the same build gives the same bytes."""

DelegateMap = dict[int, dict[str, Any]]


def etrecord(manager: Any, partitions: Sequence[Sequence[KernelOrigin]]) -> bytes:
    """The file's bytes.

    ExecuTorch's delegate maps have the numbers of kernel calls, which are the names of events that a runtime writes.
    The names of the calls, which are in the ETDump files that `deuteron profile` writes, are added.

    Args:
        manager: the program manager, of a lowering that was told to keep a record.
        partitions: the kernel calls of each.
    """
    record = manager.get_etrecord()
    delegates = cast("DelegateMap", record._delegate_map[_METHOD])  # noqa: SLF001 - ExecuTorch has no other way
    calls = [entry for _, entry in sorted(delegates.items()) if family_of(entry["name"]) is not None]
    for entry, kernels in zip(calls, partitions, strict=True):
        numbers = cast("dict[int, tuple[int, ...]]", entry["delegate_map"] or {})
        named = {event_name(k.kernel, k.index): numbers[k.index] for k in kernels if k.index in numbers}
        entry["delegate_map"] = {**numbers, **named}
    saved = io.BytesIO()
    record.save(saved)
    return _without_dates(saved.getvalue())


def _without_dates(data: bytes) -> bytes:
    """The same archive, whose entries do not tell when they were made, and compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as dated, zipfile.ZipFile(buffer, "w") as fresh:
        for name in dated.namelist():
            fresh.writestr(zipfile.ZipInfo(name, _DATE), dated.read(name), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
