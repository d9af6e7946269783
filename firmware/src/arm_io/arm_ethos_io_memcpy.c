/* This file has no other definition: an override must not pull in a second one. */
#include "deuteron/arm_io.h"
#include "deuteron/io.h"
#include "ethosu_driver.h"

/* A slot for a failed copy is free, filling, or holds one, in turn. The other bits of its state count the turns, so
 * that a thread that read one copy cannot free the slot of another. */
enum { FREE = 0, FILLING = 1, HELD = 2, PHASE = 3, TURN = 4, PLACES = 8 };

/* A failed copy that no check has reported yet. One of its addresses is in memory of the inference: concurrent threads
 * have their own memory, which assigns a failure to its inference. */
typedef struct {
    uint32_t state;
    uintptr_t dst;
    uintptr_t src;
} failure_t;

static failure_t failures[PLACES];

/* True after more failures than slots: no inference is trusted until the next check. */
static bool overflowed;

static bool advance(failure_t *failure, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&failure->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void record_failure(const void *dst, const void *src)
{
    for (size_t i = 0; i < PLACES; i++) {
        failure_t *failure = &failures[i];
        const uint32_t state = __atomic_load_n(&failure->state, __ATOMIC_ACQUIRE);
        if ((state & PHASE) == FREE && advance(failure, state, state + FILLING)) {
            __atomic_store_n(&failure->dst, (uintptr_t)dst, __ATOMIC_RELAXED);
            __atomic_store_n(&failure->src, (uintptr_t)src, __ATOMIC_RELAXED);
            __atomic_store_n(&failure->state, state + HELD, __ATOMIC_RELEASE);
            return;
        }
    }
    __atomic_store_n(&overflowed, true, __ATOMIC_RELEASE);
}

/* True if an address is in memory of an inference; true for any address if the sizes are unknown. */
static bool is_inside(uintptr_t address, const uint64_t *bases, const size_t *sizes, int count)
{
    for (int i = 0; sizes != NULL && i < count; i++) {
        if (address >= bases[i] && address - bases[i] < sizes[i]) {
            return true;
        }
    }
    return sizes == NULL;
}

/* Clears the failures of an inference, and returns true if there was one. */
static bool clear_failures(const uint64_t *bases, const size_t *sizes, int count)
{
    bool taken = false;
    for (size_t i = 0; i < PLACES; i++) {
        failure_t *failure = &failures[i];
        const uint32_t state = __atomic_load_n(&failure->state, __ATOMIC_ACQUIRE);
        const uintptr_t dst = __atomic_load_n(&failure->dst, __ATOMIC_RELAXED);
        const uintptr_t src = __atomic_load_n(&failure->src, __ATOMIC_RELAXED);
        if ((state & PHASE) == HELD && (is_inside(dst, bases, sizes, count) || is_inside(src, bases, sizes, count)) &&
            advance(failure, state, state - HELD + TURN)) {
            taken = true;
        }
    }
    return taken;
}

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size)
{
    if (size != 0 && (dtn_io_copy_start(dst, src, size) != 0 || dtn_io_copy_wait() != 0)) {
        record_failure(dst, src);
    }
}

bool dtn_arm_io_failed(void)
{
    const bool taken = clear_failures(NULL, NULL, 0);
    return __atomic_exchange_n(&overflowed, false, __ATOMIC_ACQ_REL) || taken;
}

/* The linker's names of the driver's function, and of the wrapper that calls of it reach. */
int __real_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);
int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);

int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg)
{
    const bool failed = clear_failures(base_addr, base_addr_size, num_base_addr);
    return failed || __atomic_load_n(&overflowed, __ATOMIC_ACQUIRE)
               ? -1
               : __real_ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size,
                                         num_base_addr, user_arg);
}
