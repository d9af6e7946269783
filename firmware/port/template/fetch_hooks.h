/**
 * @file
 * Fetches of weights while the core computes.
 */
#pragma once

#include "NeutronDriver.h"

/** Installs the hooks; must not be called during a run. */
NeutronError fetch_hooks_install(void);
