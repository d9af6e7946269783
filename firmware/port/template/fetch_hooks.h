/**
 * @file
 * Fetches of weights while the core computes.
 */
#ifndef FETCH_HOOKS_H
#define FETCH_HOOKS_H

#include "NeutronDriver.h"

/** Installs the hooks; must not be called during a run. */
NeutronError fetch_hooks_install(void);

#endif /* FETCH_HOOKS_H */
