#include "board.h"

void dtn_board_start(void)
{
    dtn_cycles_start();
}
