"""TFLite files with several subgraphs, signatures and sparse tensors, which `encode` does not write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tflite

from deuteron.tflite.encode import Encoder
from deuteron.tflite.flat_model import FILE_IDENTIFIER, SCHEMA_VERSION, FlatModel, FlatTensor


@dataclass(frozen=True)
class Sparse:
    """Layout of the stored values of a tensor: `levels` are sizes, or pairs of segments and indices."""

    order: tuple[int, ...]
    levels: tuple[int | tuple[Sequence[int], Sequence[int]], ...]
    blocks: tuple[int, ...] = ()


class _Encoder(Encoder):
    """Writes several models as the subgraphs of one file."""

    def __init__(self, models: Sequence[FlatModel], sparse: Mapping[str, Sparse]) -> None:
        super().__init__(models[0])
        self.models, self.sparse = models, sparse

    def file(self, signatures: Mapping[str, int]) -> bytes:
        """The bytes."""
        codes: list[tuple[str, str, int]] = []
        subgraphs: list[int] = []
        for model in self.models:
            operators: list[int] = []
            for op in model.operators:
                code = op.name, op.custom_code, op.version
                if code not in codes:
                    codes.append(code)
                operators.append(self.operator(op, codes.index(code)))
            tensors = [self.tensor(tensor) for tensor in model.tensors]
            parts = {
                "Tensors": self.offsets(tensors),
                "Inputs": self.integers(model.inputs),
                "Outputs": self.integers(model.outputs),
                "Operators": self.offsets(operators),
            }
            subgraphs.append(self.table("SubGraph", **parts))
        named = [self.signature(name, self.models[index], index) for name, index in signatures.items()]
        root = self.table(
            "Model",
            Version=SCHEMA_VERSION,
            OperatorCodes=self.offsets([self.operator_code(*code) for code in codes]),
            Subgraphs=self.offsets(subgraphs),
            Buffers=self.offsets(self.buffers),
            SignatureDefs=self.offsets(named),
        )
        self.builder.Finish(root, file_identifier=FILE_IDENTIFIER)
        return bytes(self.builder.Output())

    def tensor(self, tensor: FlatTensor) -> int:
        """Offset of a tensor."""
        found = self.sparse.get(tensor.name)
        if found is None:
            return super().tensor(tensor)
        levels: list[int] = []
        for level in found.levels:
            if isinstance(level, int):
                levels.append(self.table("DimensionMetadata", Format=0, DenseSize=level))
                continue
            segments, indices = (self.table("Int32Vector", Values=self.integers(part)) for part in level)
            levels.append(
                self.table(
                    "DimensionMetadata",
                    Format=1,
                    ArraySegmentsType=1,
                    ArraySegments=segments,
                    ArrayIndicesType=1,
                    ArrayIndices=indices,
                )
            )
        parts = {"TraversalOrder": self.integers(found.order), "DimMetadata": self.offsets(levels)}
        if found.blocks:
            parts["BlockMap"] = self.integers(found.blocks)
        sparsity = self.table("SparsityParameters", **parts)
        fields = {
            "Shape": self.integers(tensor.shape),
            "Type": getattr(tflite.TensorType, tensor.dtype),
            "Buffer": self.buffer(tensor.data),
            "Name": self.text(tensor.name),
        }
        if tensor.quant is not None:
            fields["Quantization"] = self.quantization(tensor.quant)
        return self.table("Tensor", **fields, Sparsity=sparsity)


def file_of(
    *models: FlatModel, signatures: Mapping[str, int] | None = None, sparse: Mapping[str, Sparse] | None = None
) -> bytes:
    """The file of these subgraphs."""
    return _Encoder(models, sparse or {}).file(signatures or {})
