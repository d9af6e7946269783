"""TFLite operators as calls of C operators on a Cortex-M, bit for bit as LiteRT's reference kernels."""
