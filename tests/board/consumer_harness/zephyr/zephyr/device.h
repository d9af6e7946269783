#pragma once

#include <stdbool.h>

struct device {
    const char *name;
};

bool device_is_ready(const struct device *dev);
