"""The back end of the Arm Ethos-U, over ExecuTorch's unmodified Arm backend and Vela."""
