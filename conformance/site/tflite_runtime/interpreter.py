"""LiteRT's interpreter as `tflite_runtime.interpreter`, with the namespace that TensorFlow Lite has."""

from types import SimpleNamespace

from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate  # noqa: TID251 - outside the product

__all__ = ["Interpreter", "OpResolverType", "experimental", "load_delegate"]

experimental = SimpleNamespace(OpResolverType=OpResolverType)
