"""NPU kernels: catalogue, parameters, and the program of calls."""
