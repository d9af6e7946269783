"""Runs ExecuTorch's own tests of its NXP backend, unmodified from the installed package, against Deuteron.

`python -m conformance` runs them; nothing of the installed package is changed. What the tests expect to find and the
package does not bring is put on the import path of the processes that run them, and only there:

- `site/`: the vendor SDK's import name over `deuteron.npu.neutron.sdk`, the paths of runner and simulator (`config`),
  the TFLite interpreter under its old name, a guard for torchvision (`sitecustomize`), and the pytest plugin that
  selects tests and records results;
- `build/conformance/packages`: what the tests import, pinned in `requirements.txt`.

Every test is accounted for: it passes, or it fails, or `deviations.toml` says why it is not run as it stands.
"""
