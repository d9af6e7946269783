"""Running what was compiled: native libraries, the driver, `.pte` files and ExecuTorch's runtime on the host."""
