/* Access to any value of a program. Separate from the executor: most images do not link it. */
#include <stddef.h>

#include "deuteron/executor.h"
#include "values.h"

void *dtn_executor_value(const dtn_executor_t *executor, uint32_t index)
{
    const dtn_bundle_t *bundle = executor == NULL ? NULL : executor->bundle;
    bool is_value = bundle != NULL && index < bundle->value_count;
    return is_value ? dtn_value_data(executor, &bundle->values[index]) : NULL;
}
