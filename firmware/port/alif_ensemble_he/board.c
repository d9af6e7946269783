#include "../alif/ensemble.h"
