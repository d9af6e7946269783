#include "strided_iterator.h"

DTN_BINARY_F32(dtn_op_div, /)
