/* One run call by call, and the search over what stays. */
#include "fetching.h"

#include <string.h>

/* A chunk in the area or in scratch, with the byte after its last. */
typedef struct {
    uint64_t offset;
    uint64_t end;
    uint32_t chunk;
} live_t;

struct dtn_fetching {
    dtn_fetching_config_t config;
    uint64_t *rest;     /* cycles of each call and all after it */
    uint64_t *arrivals; /* of each chunk, NONE before its fetch is started */
    uint64_t *places;   /* of the chunks that stay */
    live_t *live;       /* by offset */
    uint32_t *standing; /* walls that may be in the way, by offset */
    uint8_t *best;      /* what stays */
    uint8_t *candidate;
    uint32_t *others;
    uint64_t *hashes; /* of each choice that was looked at */
    uint8_t *known;   /* these choices, a byte per chunk */
    uint32_t known_count;
    uint64_t best_cycles;
    /* Of the run that is followed. */
    dtn_fetching_choice_t choice;
    dtn_fetching_step_t *steps;
    uint32_t step_count;
    uint32_t channels[DTN_FETCHING_MAX_CHANNELS]; /* the chunk that each fetches, chunk_count for none */
    uint32_t live_count;
    uint32_t standing_count;
    uint32_t next_wall; /* the first that has not been among them */
    uint32_t next;
    uint64_t start; /* of what does not stay */
    uint64_t now;
    uint64_t free; /* when the flash is */
};

static bool is_in_range(const dtn_fetching_config_t *config)
{
    if (config->chunk_count > UINT16_MAX || config->call_count > UINT32_MAX / 2U || config->tries > UINT16_MAX ||
        config->wall_count > UINT32_MAX / 2U || config->scratch > UINT64_MAX - config->area || config->channels == 0 ||
        config->channels > DTN_FETCHING_MAX_CHANNELS) {
        return false;
    }
    for (uint32_t i = 0; i < config->chunk_count; i++) {
        const dtn_fetching_chunk_t *c = &config->chunks[i];
        if (c->last < c->first || c->last >= config->call_count || (i > 0 && c->first < c[-1].first)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < config->wall_count; i++) {
        const dtn_fetching_wall_t *w = &config->walls[i];
        if (w->last < w->first || w->nbytes > config->scratch || w->offset > config->scratch - w->nbytes ||
            (i > 0 && w->first < w[-1].first)) {
            return false;
        }
    }
    return true;
}

static void *take(unsigned char *memory, size_t *used, size_t count, size_t size)
{
    void *part = memory == NULL ? NULL : memory + *used;
    *used += (count * size + 7U) & ~(size_t)7U;
    return part;
}

static size_t lay_out(dtn_fetching_t *s, unsigned char *memory, const dtn_fetching_config_t *config)
{
    size_t used = (sizeof *s + 7U) & ~(size_t)7U;
    size_t count = config->chunk_count;
    s->rest = take(memory, &used, (size_t)config->call_count + 1U, sizeof *s->rest);
    s->arrivals = take(memory, &used, count, sizeof *s->arrivals);
    s->places = take(memory, &used, count, sizeof *s->places);
    s->live = take(memory, &used, count, sizeof *s->live);
    s->standing = take(memory, &used, config->wall_count, sizeof *s->standing);
    s->best = take(memory, &used, count, sizeof *s->best);
    s->candidate = take(memory, &used, count, sizeof *s->candidate);
    s->others = take(memory, &used, count, sizeof *s->others);
    s->hashes = take(memory, &used, config->tries, sizeof *s->hashes);
    s->known = take(memory, &used, config->tries * count, sizeof *s->known);
    return used;
}

size_t dtn_fetching_bytes(const dtn_fetching_config_t *config)
{
    dtn_fetching_t search;
    return is_in_range(config) ? lay_out(&search, NULL, config) : 0;
}

dtn_fetching_t *dtn_fetching_init(void *memory, const dtn_fetching_config_t *config)
{
    if (!is_in_range(config)) {
        return NULL;
    }
    dtn_fetching_t *s = memory;
    lay_out(s, memory, config);
    s->config = *config;
    s->known_count = 0;
    s->best_cycles = DTN_FETCHING_NONE;
    s->rest[config->call_count] = 0;
    for (uint32_t call = config->call_count; call-- > 0;) {
        s->rest[call] = s->rest[call + 1U] + config->calls[call];
    }
    return s;
}

/* Waits for the fetch on a channel, which is free then. */
static void wait(dtn_fetching_t *s, uint32_t call, uint32_t channel)
{
    uint32_t chunk = s->channels[channel];
    if (s->steps != NULL) {
        s->steps[s->step_count++] = (dtn_fetching_step_t){0, call, chunk, channel, 1};
    }
    s->channels[channel] = s->config.chunk_count;
    s->now = s->arrivals[chunk] > s->now ? s->arrivals[chunk] : s->now;
}

/* A channel for the next fetch: one that is free, or whose fetch is done by now, or has to be done; the number of
 * channels for none. */
static uint32_t channel_for(dtn_fetching_t *s, uint32_t call, bool must)
{
    uint32_t earliest = 0;
    for (uint32_t channel = 0; channel < s->config.channels; channel++) {
        if (s->channels[channel] == s->config.chunk_count) {
            return channel;
        }
        if (s->arrivals[s->channels[channel]] < s->arrivals[s->channels[earliest]]) {
            earliest = channel;
        }
    }
    if (s->arrivals[s->channels[earliest]] > s->now && !must) {
        return s->config.channels;
    }
    wait(s, call, earliest);
    return earliest;
}

/* Walls that begin by call `last`, but for those that end before `call`. */
static void stand(dtn_fetching_t *s, uint32_t call, uint32_t last)
{
    const dtn_fetching_wall_t *walls = s->config.walls;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->standing_count; i++) {
        if (walls[s->standing[i]].last >= call) {
            s->standing[kept++] = s->standing[i];
        }
    }
    for (; s->next_wall < s->config.wall_count && walls[s->next_wall].first <= last; s->next_wall++) {
        uint32_t i = kept;
        if (walls[s->next_wall].last >= call) {
            for (; i > 0 && walls[s->standing[i - 1U]].offset > walls[s->next_wall].offset; i--) {
                s->standing[i] = s->standing[i - 1U];
            }
            s->standing[i] = s->next_wall;
            kept++;
        }
    }
    s->standing_count = kept;
}

/* The start of the first gap of a chunk's size from `at` to `end`, past chunks and past walls that stand while calls up
 * to its last run. */
static uint64_t gap_for(const dtn_fetching_t *s, uint32_t chunk, uint64_t at, uint64_t end)
{
    uint64_t nbytes = s->config.chunks[chunk].nbytes;
    uint32_t i = 0;
    for (uint32_t w = 0; i < s->live_count || w < s->standing_count;) {
        const dtn_fetching_wall_t *wall = w < s->standing_count ? &s->config.walls[s->standing[w]] : NULL;
        uint64_t offset;
        uint64_t past;
        if (wall != NULL && (i == s->live_count || s->config.area + wall->offset < s->live[i].offset)) {
            w++;
            if (wall->first > s->config.chunks[chunk].last) {
                continue;
            }
            offset = s->config.area + wall->offset;
            past = offset + wall->nbytes;
        } else {
            offset = s->live[i].offset;
            past = s->live[i++].end;
        }
        if (offset >= end || (offset >= at && offset - at >= nbytes)) {
            break;
        }
        at = past > at ? past : at;
    }
    return at <= end && end - at >= nbytes ? at : DTN_FETCHING_NONE;
}

/* Where a chunk goes whose fetch is started before `call`: its spot, or the first gap of its size. */
static uint64_t room_for(dtn_fetching_t *s, uint32_t call, uint32_t chunk)
{
    if (s->choice.offsets != NULL && s->choice.offsets[chunk] != DTN_FETCHING_NONE) {
        return s->choice.offsets[chunk];
    }
    stand(s, call, s->config.chunks[chunk].last);
    uint64_t offset = gap_for(s, chunk, s->config.area, s->config.area + s->config.scratch);
    return offset != DTN_FETCHING_NONE ? offset : gap_for(s, chunk, s->start, s->config.area);
}

static void put(dtn_fetching_t *s, uint32_t chunk, uint64_t offset)
{
    live_t item = {offset, offset + s->config.chunks[chunk].nbytes, chunk};
    uint32_t i = s->live_count++;
    while (i > 0 && s->live[i - 1U].offset > offset) {
        s->live[i] = s->live[i - 1U];
        i--;
    }
    s->live[i] = item;
}

/* Starts the next fetch; false when there is no room, or no channel that is free without waiting. */
static bool issue_one(dtn_fetching_t *s, uint32_t call, bool must)
{
    if (s->next == s->config.chunk_count) {
        return false; /* the order has not all chunks */
    }
    uint32_t chunk = s->choice.order == NULL ? s->next : s->choice.order[s->next];
    bool stays = s->choice.resident[chunk] != 0;
    if (!stays && !must && s->choice.spots != NULL && s->choice.spots[chunk] > call) {
        return false;
    }
    uint32_t channel = channel_for(s, call, must);
    uint64_t offset = channel == s->config.channels ? DTN_FETCHING_NONE
                      : stays                       ? s->places[chunk]
                                                    : room_for(s, call, chunk);
    if (offset == DTN_FETCHING_NONE) {
        return false;
    }
    if (s->steps != NULL) {
        s->steps[s->step_count++] = (dtn_fetching_step_t){offset, call, chunk, channel, 0};
    }
    s->channels[channel] = chunk;
    s->next++;
    if (stays) {
        s->arrivals[chunk] = 0;
        return true;
    }
    put(s, chunk, offset);
    s->now += s->config.setup;
    s->free = (s->free > s->now ? s->free : s->now) + s->config.chunks[chunk].transfer;
    s->arrivals[chunk] = s->free;
    return true;
}

static void issue(dtn_fetching_t *s, uint32_t call)
{
    while (issue_one(s, call, false)) {
    }
}

static void wait_for(dtn_fetching_t *s, uint32_t call, uint32_t chunk)
{
    for (uint32_t channel = 0; channel < s->config.channels; channel++) {
        if (s->channels[channel] == chunk) {
            wait(s, call, channel);
            return;
        }
    }
}

/* What no later call reads leaves its room. */
static void drop(dtn_fetching_t *s, uint32_t call)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->live_count; i++) {
        if (s->config.chunks[s->live[i].chunk].last > call) {
            s->live[kept++] = s->live[i];
        }
    }
    s->live_count = kept;
}

static void begin(dtn_fetching_t *s, const dtn_fetching_choice_t *choice, dtn_fetching_step_t *steps)
{
    s->choice = *choice;
    s->steps = steps;
    s->step_count = s->live_count = s->standing_count = s->next_wall = s->next = 0;
    s->start = s->now = s->free = 0;
    for (uint32_t channel = 0; channel < s->config.channels; channel++) {
        s->channels[channel] = s->config.chunk_count;
    }
    for (uint32_t i = 0; i < s->config.chunk_count; i++) {
        s->arrivals[i] = DTN_FETCHING_NONE;
        s->places[i] = s->start;
        s->start += choice->resident[i] ? s->config.chunks[i].nbytes : 0;
    }
}

/* The cycles of a run; NONE where some chunk finds no room, or it takes more than `most`. */
static uint64_t run(dtn_fetching_t *s, uint64_t most)
{
    uint32_t needed = 0;
    if (s->start > s->config.area) {
        return DTN_FETCHING_NONE;
    }
    for (uint32_t call = 0; call < s->config.call_count; call++) {
        issue(s, call);
        for (; needed < s->config.chunk_count && s->config.chunks[needed].first == call; needed++) {
            while (s->arrivals[needed] == DTN_FETCHING_NONE) {
                if (!issue_one(s, call, true)) {
                    return DTN_FETCHING_NONE;
                }
            }
            wait_for(s, call, needed);
        }
        /* Waiting took time and may have freed channels. */
        issue(s, call);
        if (s->now + s->rest[call] > most || s->free > most) {
            return DTN_FETCHING_NONE;
        }
        s->now += s->config.calls[call];
        drop(s, call);
    }
    return s->now > s->free ? s->now : s->free;
}

uint64_t dtn_fetching_schedule(dtn_fetching_t *search, const dtn_fetching_choice_t *choice, dtn_fetching_step_t *steps,
                               uint32_t *step_count)
{
    begin(search, choice, steps);
    uint64_t cycles = run(search, DTN_FETCHING_NONE);
    *step_count = search->step_count;
    return cycles;
}

static uint64_t hash_of(const uint8_t *resident, uint32_t count)
{
    uint64_t hash = 14695981039346656037U;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ resident[i]) * 1099511628211U;
    }
    return hash;
}

/* Whether a choice has been looked at; it has been from now on. */
static bool is_known(dtn_fetching_t *s, const uint8_t *resident)
{
    uint32_t count = s->config.chunk_count;
    uint64_t hash = hash_of(resident, count);
    for (uint32_t i = 0; i < s->known_count; i++) {
        if (s->hashes[i] == hash && memcmp(s->known + (size_t)i * count, resident, count) == 0) {
            return true;
        }
    }
    s->hashes[s->known_count] = hash;
    memcpy(s->known + (size_t)s->known_count * count, resident, count);
    s->known_count++;
    return false;
}

void dtn_fetching_try(dtn_fetching_t *search, const uint8_t *resident, uint64_t bound)
{
    bool is_best = search->best_cycles != DTN_FETCHING_NONE && search->best_cycles <= bound;
    if (is_best || search->known_count == search->config.tries || is_known(search, resident)) {
        return;
    }
    const dtn_fetching_choice_t choice = {resident, NULL, NULL, NULL};
    begin(search, &choice, NULL);
    uint64_t cycles = run(search, search->best_cycles);
    if (cycles != DTN_FETCHING_NONE && cycles <= search->best_cycles) {
        search->best_cycles = cycles;
        memcpy(search->best, resident, search->config.chunk_count);
    }
}

static void fill(dtn_fetching_t *s, const uint32_t *order, uint32_t count, uint64_t limit)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t nbytes = s->config.chunks[order[i]].nbytes;
        if (nbytes <= limit) {
            s->candidate[order[i]] = 1;
            limit -= nbytes;
        }
    }
}

void dtn_fetching_fill(dtn_fetching_t *search, const uint32_t *order, uint64_t limit, uint64_t bound)
{
    memset(search->candidate, 0, search->config.chunk_count);
    fill(search, order, search->config.chunk_count, limit);
    dtn_fetching_try(search, search->candidate, bound);
}

typedef struct {
    const uint32_t *words;
    uint32_t count;
    uint32_t next;
} words_t;

/* A number below `limit`, at least 1: of the words that come next, the first whose upper bits are one; 0 if none is. */
static uint32_t below(words_t *words, uint32_t limit)
{
    uint32_t bits = 0;
    while (bits < 32U && limit >> bits != 0) {
        bits++;
    }
    for (uint32_t i = 0; i < words->count; i++) {
        uint32_t value = words->words[words->next] >> (32U - bits);
        words->next = (words->next + 1U) % words->count;
        if (value < limit) {
            return value;
        }
    }
    return 0;
}

static void shuffle(words_t *words, uint32_t *items, uint32_t count)
{
    for (uint32_t i = count; i-- > 1U;) {
        uint32_t j = below(words, i + 1U);
        uint32_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

/* Makes the candidate of the best, with one chunk out, or in with others out. */
static void change(dtn_fetching_t *s, words_t *words)
{
    uint32_t chosen = below(words, s->config.chunk_count);
    uint32_t count = 0;
    if (s->best[chosen]) {
        memcpy(s->candidate, s->best, s->config.chunk_count);
        s->candidate[chosen] = 0;
        return;
    }
    for (uint32_t i = 0; i < s->config.chunk_count; i++) {
        if (s->best[i]) {
            s->others[count++] = i;
        }
    }
    shuffle(words, s->others, count);
    /* One out also without need: what is left must find room to be streamed. */
    uint32_t out = below(words, 2);
    uint32_t skipped = out < count ? out : count;
    memset(s->candidate, 0, s->config.chunk_count);
    s->candidate[chosen] = 1;
    if (s->config.chunks[chosen].nbytes <= s->config.area) {
        fill(s, s->others + skipped, count - skipped, s->config.area - s->config.chunks[chosen].nbytes);
    }
}

void dtn_fetching_improve(dtn_fetching_t *search, uint32_t rounds, const uint32_t *words, uint32_t word_count,
                          uint64_t bound)
{
    words_t left = {words, word_count, 0};
    if (search->config.chunk_count == 0 || word_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < rounds && search->best_cycles != DTN_FETCHING_NONE && search->best_cycles > bound; i++) {
        change(search, &left);
        dtn_fetching_try(search, search->candidate, bound);
    }
}

uint64_t dtn_fetching_best(const dtn_fetching_t *search, uint8_t *resident)
{
    if (search->best_cycles != DTN_FETCHING_NONE) {
        memcpy(resident, search->best, search->config.chunk_count);
    }
    return search->best_cycles;
}

void dtn_fetching_offer(dtn_fetching_t *search, uint64_t cycles)
{
    search->best_cycles = cycles;
    memset(search->best, 0, search->config.chunk_count);
}
