#include "prepare_errors.h"

#include "test.h"

NeutronError prepare(const build_t *build)
{
    NeutronModelConfig config = build_config(build);
    NeutronModelHandle handle = NULL;
    NeutronError error = neutronModelPrepare(&config, &handle);
    CHECK((error == ENONE) == (handle != NULL), "error 0x%X with handle %p", (unsigned)error, handle);
    if (error == ENONE) {
        CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    }
    return error;
}

void check_error(NeutronError found, dtn_reason_t reason, uint32_t detail, const char *what)
{
    CHECK(found == dtn_error(reason, detail), "%s: `%s` (%u), expected `%s` (%u)", what, dtn_error_string(found),
          (unsigned)DTN_ERROR_DETAIL(found), dtn_error_string(dtn_error(reason, detail)), (unsigned)detail);
}
