/* Reports a fault on the host's console and ends the program with status 3. */
#include "semihost.h"
#include "startup.h"

enum { EXIT_FAULT = 3 };

/* Meaning of a bit of the fault status register. */
typedef struct {
    uint32_t bit;
    const char *text;
} cause_t;

static const cause_t causes[] = {
    {0, "the instruction is in memory that may not be executed"},
    {1, "the data's address may not be accessed"},
    {3, "returning from an exception could not read the stack"},
    {4, "the stack overflowed"},
    {8, "the instruction could not be read"},
    {9, "the data could not be read or written"},
    {10, "data written earlier could not be written"},
    {11, "returning from an exception could not read the stack"},
    {12, "an exception could not save registers on the stack"},
    {16, "the instruction is undefined"},
    {17, "the code's address is even, which is not Thumb code"},
    {18, "returning from an exception found an impossible state"},
    {19, "the coprocessor is not enabled"},
    {20, "the stack overflowed"},
    {24, "the data's address is not aligned"},
    {25, "a division by zero"},
};

enum { CAUSES = sizeof causes / sizeof causes[0] };

#define MMFAR_VALID (UINT32_C(1) << 7)
#define BFAR_VALID (UINT32_C(1) << 15)

static void print_register(const char *name, uint32_t value)
{
    dtn_semihost_print(name);
    dtn_semihost_print_hex(value);
}

static void print_exception(uint32_t exception)
{
    static const char *const names[] = {"NMI", "HardFault", "MemManage", "BusFault", "UsageFault", "SecureFault"};
    if (exception >= 2 && exception < 8) {
        dtn_semihost_print(names[exception - 2]);
    } else {
        dtn_semihost_print("no handler for exception ");
        dtn_semihost_print_number(exception);
    }
}

void dtn_fault(const dtn_fault_t *fault)
{
    dtn_semihost_print("fault: ");
    print_exception(fault->exception);
    for (uint32_t i = 0; i < CAUSES; i++) {
        if ((fault->cfsr >> causes[i].bit & 1U) != 0) {
            dtn_semihost_print(": ");
            dtn_semihost_print(causes[i].text);
        }
    }
    if ((fault->cfsr & MMFAR_VALID) != 0) {
        print_register(": ", fault->mmfar);
    }
    if ((fault->cfsr & BFAR_VALID) != 0) {
        print_register(": ", fault->bfar);
    }
    print_register("\n  pc ", fault->pc);
    print_register(", lr ", fault->lr);
    print_register(", sp ", fault->sp);
    print_register(", cfsr ", fault->cfsr);
    print_register(", hfsr ", fault->hfsr);
    dtn_semihost_print("\n");
    dtn_semihost_exit(EXIT_FAULT);
}
