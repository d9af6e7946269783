"""What a build keeps of each partition: sizes, operators with their source, kernel calls, and the files themselves."""

import hashlib
import struct
from collections.abc import Iterable

from deuteron.frontend.manifest import Partition, PartitionKernel, PartitionOp, TensorInfo
from deuteron.frontend.seam import Lowered
from deuteron.tflite.decode import decode
from deuteron.tflite.flat import FlatModel
from deuteron.tflite.neutron import unwrap
