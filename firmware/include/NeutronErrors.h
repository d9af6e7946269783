/**
 * @file
 * Error numbers of the Neutron driver API, binary compatible with the header that ExecuTorch's NXP backend includes.
 *
 * An error is 0 (`ENONE`) or a positive number: bits 0-2 component, bits 3-7 category, bits 8-30 code. Our codes and
 * their meanings are in `deuteron/errors.h`.
 */
#ifndef NEUTRON_ERRORS_H
#define NEUTRON_ERRORS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t NeutronError;

/** No error. */
#define ENONE 0

/** Composes an error; each part is cut to its width. */
#define GEN_NEUTRON_ERROR(component, category, code)                                                                   \
    ((NeutronError)(((uint32_t)(component) & 0x7U) | (((uint32_t)(category) & 0x1FU) << 3) |                           \
                    (((uint32_t)(code) & 0x7FFFFFU) << 8)))

#define GET_ERROR_COMPONENT(e) ((e) & 0x7)
#define GET_ERROR_CATEGORY(e) (((e) >> 3) & 0x1F)
#define GET_ERROR_CODE(e) (((e) >> 8) & 0x7FFFFF)

/** Component that reports an error. */
typedef enum ERROR_COMPONENT_ID {
    ERROR_COMPONENT_LIBRARY = 0x1,
    ERROR_COMPONENT_FIRMWARE = 0x2,
    ERROR_COMPONENT_DRIVER = 0x3
} ERROR_COMPONENT_ID;

/** Kind of an error of the driver. The names are the API's; it does not publish the numbers. */
typedef enum ERROR_CATEGORY_DRIVER {
    ERROR_CATEGORY_DRIVER_GENERIC = 0,
    ERROR_CATEGORY_DRIVER_UNSUPPORTED = 1,
    ERROR_CATEGORY_DRIVER_UCODE = 2,
    ERROR_CATEGORY_DRIVER_INVALID = 3,
    ERROR_CATEGORY_DRIVER_BAD_HANDLE = 4,
    ERROR_CATEGORY_DRIVER_NO_MEMORY = 5,
    ERROR_CATEGORY_DRIVER_INTERNAL_FAULT = 6,
    ERROR_CATEGORY_DRIVER_UNKNOWN_ARCH = 7,
    ERROR_CATEGORY_DRIVER_TRACE_NOT_RUN = 8,
    ERROR_CATEGORY_DRIVER_TIMEOUT = 9
} ERROR_CATEGORY_DRIVER;

/** Name of the component in `ne`, a static string; "none" for `ENONE`, "unknown" for other numbers.
 */
char *getNeutronErrorComponent(NeutronError ne);

/** Name of the category in `ne`, a static string; "none" and "unknown" as above. */
char *getNeutronErrorCategory(NeutronError ne);

#ifdef __cplusplus
}
#endif

#endif /* NEUTRON_ERRORS_H */
