/* One executor for a bundle of this library, so that ctypes needs no structs of the firmware. */
#include "deuteron/errors.h"
#include "deuteron/executor.h"

/* -DBUNDLE=name of the bundle, -DMEMORIES=name of its memories */
extern const dtn_bundle_t BUNDLE;
extern const dtn_memory_t MEMORIES[];

const char *host_init(void);
const char *host_run(const void *const *inputs, void *const *outputs);

static dtn_executor_t executor;

static const char *sentence(NeutronError error)
{
    return error == ENONE ? NULL : dtn_error_string(error);
}

const char *host_init(void)
{
    NeutronError error = neutronInit();
    return sentence(error == ENONE ? dtn_executor_init(&executor, &BUNDLE, MEMORIES) : error);
}

const char *host_run(const void *const *inputs, void *const *outputs)
{
    return sentence(dtn_executor_run(&executor, inputs, outputs));
}
