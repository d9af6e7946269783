#include "exponential.h"
#include "float32_common.h"

typedef dtn_tfl_detection_params_t params_t;

enum { BOXES, SCORES, ANCHORS, WORKSPACE, PLACES, CLASSES, BEST, COUNT };

/* Numbers of a box: its centre and its size, or its corners. */
enum { Y, X, H, W, CORNERS };

/* An entry of the workspace for each box: its corners, its largest score, and the class of that, -1 for a rejected box.
 */
typedef struct {
    float corners[CORNERS];
    float score;
    float class;
} box_t;

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 3, 5, params_t) || !dtn_cm_are(call->values, COUNT + 1, DTN_TYPE_F32)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    return p->codes >= CORNERS && p->label_offset >= 0 && p->label_offset < p->scores && p->per_class >= 0 &&
           dtn_cm_has_size(&values[BOXES], DTN_CM_LIST(4, p->boxes, p->codes)) &&
           dtn_cm_has_size(&values[SCORES], DTN_CM_LIST(4, p->boxes, p->scores)) &&
           dtn_cm_has_size(&values[ANCHORS], DTN_CM_LIST(4, p->boxes, CORNERS)) &&
           dtn_cm_has_size(&values[WORKSPACE], DTN_CM_LIST((int32_t)sizeof(box_t), p->boxes)) &&
           dtn_cm_has_size(&values[PLACES], DTN_CM_LIST(4, p->detections, CORNERS)) &&
           dtn_cm_has_size(&values[CLASSES], DTN_CM_LIST(4, p->detections)) &&
           dtn_cm_has_size(&values[BEST], DTN_CM_LIST(4, p->detections)) && values[COUNT].bytes == sizeof(float);
}

/* The corners along one axis: the ends of a length about a centre, relative to an anchor. */
static void corners(float *low, float centre, float size, const float *anchor, int32_t centre_scale, int32_t size_scale)
{
    double at = (double)centre / (double)dtn_tfl_real(centre_scale) * (double)anchor[H] + (double)anchor[Y];
    double ratio = dtn_tfl_exponential((double)size / (double)dtn_tfl_real(size_scale));
    float middle = (float)at, half = (float)(0.5 * ratio * (double)anchor[H]);
    low[Y] = middle - half;
    low[H] = middle + half;
}

/* A box with its best class, which is the first of equals; out where its score is below the threshold. */
static box_t decoded(const params_t *p, const float *code, const float *scores, const float *anchor)
{
    box_t box = {{0.0F, 0.0F, 0.0F, 0.0F}, scores[p->label_offset], 0.0F};
    corners(&box.corners[Y], code[Y], code[H], &anchor[Y], p->y_scale, p->h_scale);
    corners(&box.corners[X], code[X], code[W], &anchor[X], p->x_scale, p->w_scale);
    for (int32_t i = p->label_offset + 1; i < p->scores; i++) {
        if (scores[i] > box.score) {
            box.score = scores[i];
            box.class = (float)(i - p->label_offset);
        }
    }
    if (!(box.score >= dtn_tfl_real(p->score_threshold))) {
        box.class = -1.0F;
    }
    return box;
}

static float area(const float *box)
{
    return (box[H] - box[Y]) * (box[W] - box[X]);
}

/* The length that two boxes have in common along an axis. */
static float overlap(const float *a, const float *b)
{
    float low = a[Y] > b[Y] ? a[Y] : b[Y], high = a[H] < b[H] ? a[H] : b[H];
    return high - low > 0.0F ? high - low : 0.0F;
}

static float intersection_over_union(const float *a, const float *b)
{
    float area_a = area(a), area_b = area(b);
    if (area_a <= 0.0F || area_b <= 0.0F) {
        return 0.0F;
    }
    float common = overlap(&a[Y], &b[Y]) * overlap(&a[X], &b[X]);
    return common / (area_a + area_b - common);
}

/* The box with the largest score that is not out, the first of equals; NULL for none. */
static box_t *best_of(box_t *boxes, int32_t count)
{
    box_t *best = NULL;
    for (int32_t i = 0; i < count; i++) {
        if (boxes[i].class >= 0.0F && (best == NULL || boxes[i].score > best->score)) {
            best = &boxes[i];
        }
    }
    return best;
}

/* Detections so far, by descending scores: of equal ones the first stays in front. */
typedef struct {
    float *places;
    float *classes;
    float *scores;
    int32_t most;
    int32_t count;
} found_t;

/* Puts a box into its place, and drops the last one where there are too many. */
static void insert(found_t *found, const box_t *box)
{
    int32_t at = found->count;
    while (at > 0 && found->scores[at - 1] < box->score) {
        at--;
    }
    if (at == found->most) {
        return;
    }
    found->count += found->count < found->most ? 1 : 0;
    const size_t place = (size_t)at, after = (size_t)(found->count - 1 - at);
    memmove(found->places + (place + 1) * CORNERS, found->places + place * CORNERS, after * sizeof box->corners);
    memmove(found->classes + place + 1, found->classes + place, after * sizeof(float));
    memmove(found->scores + place + 1, found->scores + place, after * sizeof(float));
    memcpy(found->places + place * CORNERS, box->corners, sizeof box->corners);
    found->classes[at] = box->class;
    found->scores[at] = box->score;
}

/* The best box is a detection, and those that it overlaps are out; `most` times. */
static void suppress(const params_t *p, box_t *boxes, int32_t most, found_t *found)
{
    box_t *best;
    for (int32_t taken = 0; taken < most && (best = best_of(boxes, p->boxes)) != NULL; taken++) {
        insert(found, best);
        best->class = -1.0F;
        for (int32_t i = 0; i < p->boxes; i++) {
            if (boxes[i].class >= 0.0F &&
                intersection_over_union(best->corners, boxes[i].corners) > dtn_tfl_real(p->iou_threshold)) {
                boxes[i].class = -1.0F;
            }
        }
    }
}

int32_t dtn_tfl_detection(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const dtn_tensor_t *values = call->values;
    const float *codes = (const float *)values[BOXES].data, *scores = (const float *)values[SCORES].data;
    const float *anchors = (const float *)values[ANCHORS].data;
    box_t *boxes = (box_t *)values[WORKSPACE].data;
    found_t found = {(float *)values[PLACES].data, (float *)values[CLASSES].data, (float *)values[BEST].data,
                     p->detections, 0};
    for (size_t i = 0; i < (size_t)p->boxes; i++) {
        boxes[i] = decoded(p, codes + i * (size_t)p->codes, scores + i * (size_t)p->scores, anchors + i * CORNERS);
    }
    for (uint32_t output = PLACES; output <= COUNT; output++) {
        memset(values[output].data, 0, values[output].bytes);
    }
    if (p->per_class == 0) {
        suppress(p, boxes, p->detections, &found);
    }
    for (int32_t class = 0; p->per_class > 0 && class < p->scores - p->label_offset; class++) {
        for (int32_t i = 0; i < p->boxes; i++) {
            boxes[i].score = scores[(size_t)i * (size_t)p->scores + (size_t)(p->label_offset + class)];
            boxes[i].class = boxes[i].score >= dtn_tfl_real(p->score_threshold) ? (float)class : -1.0F;
        }
        suppress(p, boxes, p->per_class, &found);
    }
    *(float *)values[COUNT].data = (float)found.count;
    return DTN_OK;
}
