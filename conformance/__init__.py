"""Runs ExecuTorch's own tests of its NXP and Cortex-M backends against Deuteron, unmodified from the installed package.

`python -m conformance --backend NAME` runs them; nothing of the installed package is changed. What the tests expect to
find and the package does not bring is given to the processes that run them, and only to them:

- `site/`, on their import path: the vendor SDK's import name over `deuteron.npu.neutron.sdk`, the paths of runner and
  simulator (`config`), the TFLite interpreter under its old name, a guard for torchvision (`sitecustomize`), and the
  pytest plugin that selects tests and records results;
- `build/conformance/packages`: what the tests import, pinned in `requirements.txt`;
- `cortex_m/bin/`, on their PATH: the name of Arm's simulator, over `cortex_m/simulator.py`, which runs programs on this
  machine and on an emulated board.

Every test is accounted for: it passes, or it fails, or the backend's `deviations.toml` says why it does not run as it
stands.
"""
