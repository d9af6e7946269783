"""Writes ExecuTorch's ETRecord of a build, with which its Inspector resolves events."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any, cast

from deuteron.npu.families import family_of
from deuteron.npu.neutron.kernels.event_names import event_name
from deuteron.npu.provenance import KernelOrigin

_METHOD = "forward"
_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every archive entry: the same build gives the same bytes."""

DelegateMap = dict[int, dict[str, Any]]


def etrecord(manager: Any, partitions: Sequence[Sequence[KernelOrigin]]) -> bytes:
    """Return the bytes of the ETRecord.

    ExecuTorch's delegate maps have the numbers of kernel calls as keys, which a runtime writes as event names. This
    adds the names of the calls, which the ETDump files of `deuteron profile` contain.

    Args:
        manager: the program manager of a lowering that kept a record.
        partitions: the kernel calls of each partition.
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
    """The same archive, compressed, with a constant date for all entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as dated, zipfile.ZipFile(buffer, "w") as fresh:
        for name in dated.namelist():
            fresh.writestr(zipfile.ZipInfo(name, _DATE), dated.read(name), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
