"""The vendor SDK's name on the import path: importing it puts Deuteron's package of that name in its place.

Tests also start programs that import the SDK, so any process has to find it, not only one that called `install`.
"""

import os
from pathlib import Path

from deuteron.npu.neutron import sdk

sdk.install(sdk.Session(Path(os.environ.get("DEUTERON_CONFORMANCE_RUN", "."))), shadow_vendor=True)
