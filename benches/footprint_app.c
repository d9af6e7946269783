/* The least application: prepares the bundle and runs it for as long as nothing fails, in place. */
#include "dtn_bundle.h"
#include "NeutronDriver.h"

int main(void);

int main(void)
{
    static dtn_executor_t executor;
    NeutronError error = neutronInit();
    if (error == ENONE) {
        error = dtn_executor_init(&executor, &dtn_bundle, dtn_bundle_memories);
    }
    while (error == ENONE) {
        error = dtn_executor_run(&executor, 0, 0);
    }
    return (int)error;
}
