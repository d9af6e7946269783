/**
 * @file
 * Assembler that sets the predicate. Clang has no name for it as a clobber, so that other code near such assembler must
 * not need one: the assembler is then in a separate function.
 */
#pragma once

#if defined(__clang__)
#define DTN_CM_PREDICATE
#define DTN_CM_ALONE __attribute__((noinline))
#else
#define DTN_CM_PREDICATE "p0",
#define DTN_CM_ALONE
#endif
