#include "board.h"

#include "cache.h"

void dtn_board_start(void)
{
    dtn_cache_start();
    dtn_cycles_start();
}
