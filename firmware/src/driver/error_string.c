#include "deuteron/errors.h"

#include <stddef.h>

const char *dtn_error_string(NeutronError error)
{
    dtn_reason_t reason = DTN_ERROR_REASON(error);
    if (error == ENONE) {
        return "no error";
    }
    /* An error of another component, or one whose category does not match its reason. */
    if (error != dtn_error(reason, DTN_ERROR_DETAIL(error))) {
        return "unknown error";
    }
    switch (reason) {
#define DTN_X(number, name, category, detail, text)                                                                    \
    case DTN_REASON_##name:                                                                                            \
        return text;
        DTN_REASONS(DTN_X)
#undef DTN_X
    case DTN_OK:
        break;
    }
    return "unknown error";
}

/* The API's type has no const; callers must not write to these. */
char *getNeutronErrorComponent(NeutronError ne)
{
    static const char *const names[] = {"none", "library", "firmware", "driver"};
    int component = GET_ERROR_COMPONENT(ne);
    return (char *)(component <= ERROR_COMPONENT_DRIVER ? names[component] : "unknown");
}

char *getNeutronErrorCategory(NeutronError ne)
{
    static const char *const names[] = {
        [ERROR_CATEGORY_DRIVER_GENERIC] = "generic",
        [ERROR_CATEGORY_DRIVER_UNSUPPORTED] = "unsupported",
        [ERROR_CATEGORY_DRIVER_UCODE] = "microcode",
        [ERROR_CATEGORY_DRIVER_INVALID] = "invalid",
        [ERROR_CATEGORY_DRIVER_BAD_HANDLE] = "bad handle",
        [ERROR_CATEGORY_DRIVER_NO_MEMORY] = "no memory",
        [ERROR_CATEGORY_DRIVER_INTERNAL_FAULT] = "internal fault",
        [ERROR_CATEGORY_DRIVER_UNKNOWN_ARCH] = "unknown architecture",
        [ERROR_CATEGORY_DRIVER_TRACE_NOT_RUN] = "trace not run",
        [ERROR_CATEGORY_DRIVER_TIMEOUT] = "timeout",
    };
    size_t category = (size_t)GET_ERROR_CATEGORY(ne);
    if (ne == ENONE) {
        return (char *)"none";
    }
    return (char *)(category < sizeof names / sizeof names[0] ? names[category] : "unknown");
}
