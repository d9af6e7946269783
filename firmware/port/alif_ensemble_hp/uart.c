#include "../alif/uart2.h"
