"""The back end of the Neutron, over ExecuTorch's unmodified NXP backend."""
