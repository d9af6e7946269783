"""Places of inputs and outputs in scratch."""

from collections.abc import Mapping, Sequence

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.npu.neutron.microcode.layout import HeaderFields
from deuteron.operators.regions import Place, Region

REBUILD = "build the model again; the file may be damaged"

Places = Mapping[tuple[Region, int], int]
"""Offsets in scratch of inputs and outputs, by region and index."""


def read_places(header: HeaderFields, sizes: Sequence[int], offsets: Sequence[int]) -> Places:
    """Read the table of places, if there is one, for inputs and outputs of these sizes.

    Places of inputs must not overlap, as all are live when a run begins; nor those of outputs.

    Raises:
        FormatError: a place is invalid.
    """
    ends = [(Region.INPUT, i) for i in range(header.inputs)] + [(Region.OUTPUT, i) for i in range(header.outputs)]
    places: dict[tuple[Region, int], int] = {}
    lying: list[tuple[Region, Place]] = []
    if not header.has_places:
        return places
    for (region, index), nbytes, offset in zip(ends, sizes, offsets[: len(ends)], strict=True):
        if offset == fmt.ELSEWHERE:
            continue
        where = f"microcode, the place of {region.name.lower()} {index}"
        if offset % fmt.ALIGNMENT:
            raise FormatError(f"{offset} is no multiple of {fmt.ALIGNMENT}", hint=REBUILD, where=where)
        if offset + nbytes > header.scratch_bytes:
            text = f"bytes {offset}..{offset + nbytes} leave scratch of {header.scratch_bytes} bytes"
            raise FormatError(text, hint=REBUILD, where=where)
        place = Place(Region.SCRATCH, 0, offset, nbytes)
        if any(other is region and taken.overlaps(place) for other, taken in lying):
            text = f"bytes {offset}..{offset + nbytes} are those of another {region.name.lower()}, too"
            raise FormatError(text, hint=REBUILD, where=where)
        lying.append((region, place))
        places[region, index] = offset
    return places


def in_memory(operand: Place, places: Places) -> Place:
    """Return the place of an operand, which is in scratch for inputs and outputs that are placed there."""
    offset = places.get((operand.region, operand.index))
    return operand if offset is None else Place(Region.SCRATCH, 0, offset + operand.offset, operand.nbytes)
