"""Graph to graph rewrites, one pure pass per file, and the choice of kernels."""
