"""Runs ExecuTorch's own tests of its NXP, Cortex-M and Ethos-U backends against Deuteron, unmodified from its package.

`python -m conformance --backend NAME` runs them; nothing of the installed package is changed. The
processes that run the tests, and only they, get what the tests expect and the package lacks:

- `site/`, on their import path. It has the vendor SDK's import name over `deuteron.npu.neutron.sdk`, the paths of
  runner and simulator (`config`), and the TFLite interpreter under its old name. It also has a guard for torchvision
  (`sitecustomize`) and the pytest plugin that selects tests and records results;
- `build/conformance/packages`: what the tests import, pinned in `requirements.txt`;
- `bin/`, on their PATH: the names of Arm's simulators, over `simulator.py`, which runs programs on this machine as
  `deuteron-fvp` does, for Cortex-M on an emulated board, too;
- `build/conformance/BACKEND/images`, their EXECUTORCH_ROOT: what stands for the images that the simulators would boot,
  as `deuteron fvp install` writes it.

With `--tosa`, what the Ethos-U tests compile is compared bit for bit with TOSA's reference model, too (`tosa.py`).

Every test is accounted for: it passes, or it fails, or the backend's `deviations.toml` says why it does not run as it
stands.
"""
