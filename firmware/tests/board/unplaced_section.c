/* Has a section that no linker script of a board places. */
#include <stdint.h>

int main(void);

__attribute__((section(".elsewhere"))) volatile uint32_t elsewhere = 5;

int main(void)
{
    return (int)elsewhere;
}
