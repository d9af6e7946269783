/* Locks of Arm's driver API on hosts with several threads: one mutex, and a semaphore for each waiting thread.
 * Time-outs other than infinite ones are milliseconds. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "ethosu_driver.h"

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

static pthread_mutex_t mutex_of_drivers = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    uint32_t count;
} semaphore_t;

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
    semaphore_t *semaphore = malloc(sizeof *semaphore);
    if (semaphore != NULL) {
        (void)pthread_mutex_init(&semaphore->mutex, NULL);
        (void)pthread_cond_init(&semaphore->given, NULL);
        semaphore->count = 0;
    }
    return semaphore;
}

void ethosu_semaphore_destroy(void *sem)
{
    semaphore_t *semaphore = sem;
    (void)pthread_cond_destroy(&semaphore->given);
    (void)pthread_mutex_destroy(&semaphore->mutex);
    free(semaphore);
}

/* Waits for a give; false on time-out. */
static bool wait_until(semaphore_t *semaphore, const struct timespec *end)
{
    return (end == NULL ? pthread_cond_wait(&semaphore->given, &semaphore->mutex)
                        : pthread_cond_timedwait(&semaphore->given, &semaphore->mutex, end)) == 0;
}

int ethosu_semaphore_take(void *sem, uint64_t timeout)
{
    semaphore_t *semaphore = sem;
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(timeout / MS_PER_S);
    end.tv_nsec += (long)(timeout % MS_PER_S) * NS_PER_MS;
    if (end.tv_nsec >= NS_PER_S) {
        end.tv_nsec -= NS_PER_S;
        end.tv_sec++;
    }
    (void)pthread_mutex_lock(&semaphore->mutex);
    bool in_time = true;
    while (semaphore->count == 0 && in_time) {
        in_time = wait_until(semaphore, timeout == ETHOSU_SEMAPHORE_WAIT_FOREVER ? NULL : &end);
    }
    const bool taken = semaphore->count != 0;
    semaphore->count -= taken;
    (void)pthread_mutex_unlock(&semaphore->mutex);
    return taken ? 0 : -1;
}

int ethosu_semaphore_give(void *sem)
{
    semaphore_t *semaphore = sem;
    (void)pthread_mutex_lock(&semaphore->mutex);
    semaphore->count++;
    (void)pthread_cond_signal(&semaphore->given);
    (void)pthread_mutex_unlock(&semaphore->mutex);
    return 0;
}
