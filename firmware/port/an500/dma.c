/* This board has no DMA. */
#include "dma_by_core.h"
