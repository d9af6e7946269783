/* The locks of Arm's driver API on hosts, where several threads may want an NPU: one mutex, and the semaphore that
 * counts the free NPUs. Time-outs other than for ever are milliseconds. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <time.h>

#include "ethosu_driver.h"

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

static pthread_mutex_t mutex_of_drivers = PTHREAD_MUTEX_INITIALIZER;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    uint32_t count;
} free_drivers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

void *ethosu_mutex_create(void)
{
    return &mutex_of_drivers;
}

int ethosu_mutex_lock(void *mutex)
{
    return pthread_mutex_lock(mutex) == 0 ? 0 : -1;
}

int ethosu_mutex_unlock(void *mutex)
{
    return pthread_mutex_unlock(mutex) == 0 ? 0 : -1;
}

void *ethosu_semaphore_create(void)
{
    return &free_drivers;
}

/* Waits for a driver that is given back; false when the time is over. */
static bool wait_until(const struct timespec *end)
{
    return (end == NULL ? pthread_cond_wait(&free_drivers.given, &free_drivers.mutex)
                        : pthread_cond_timedwait(&free_drivers.given, &free_drivers.mutex, end)) == 0;
}

int ethosu_semaphore_take(void *sem, uint64_t timeout)
{
    (void)sem;
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(timeout / MS_PER_S);
    end.tv_nsec += (long)(timeout % MS_PER_S) * NS_PER_MS;
    if (end.tv_nsec >= NS_PER_S) {
        end.tv_nsec -= NS_PER_S;
        end.tv_sec++;
    }
    (void)pthread_mutex_lock(&free_drivers.mutex);
    bool in_time = true;
    while (free_drivers.count == 0 && in_time) {
        in_time = wait_until(timeout == ETHOSU_SEMAPHORE_WAIT_FOREVER ? NULL : &end);
    }
    const bool taken = free_drivers.count != 0;
    free_drivers.count -= taken;
    (void)pthread_mutex_unlock(&free_drivers.mutex);
    return taken ? 0 : -1;
}

int ethosu_semaphore_give(void *sem)
{
    (void)sem;
    (void)pthread_mutex_lock(&free_drivers.mutex);
    free_drivers.count++;
    (void)pthread_cond_signal(&free_drivers.given);
    (void)pthread_mutex_unlock(&free_drivers.mutex);
    return 0;
}
