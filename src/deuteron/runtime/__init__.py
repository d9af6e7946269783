"""Execution of compiled models: native libraries, the driver, `.pte` files and ExecuTorch's runtime on the host."""
