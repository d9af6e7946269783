#include "../depthwise_channels_s16.h"

void dtn_cm_depthwise_s16(const dtn_cm_image_s16_t *layer)
{
    dtn_cm_depthwise_channels_s16(layer);
}
