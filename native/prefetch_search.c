/* The schedule of a run, call by call, and the search for resident chunks. */
#include "prefetch_search.h"

#include <string.h>

/* A fetched chunk in the area or in scratch; `end` is the byte after its last. */
typedef struct {
    uint64_t offset;
    uint64_t end;
    uint32_t chunk;
} live_t;

struct dtn_prefetch {
    dtn_prefetch_config_t config;
    uint64_t *rest;     /* cycles of each call and of all later ones */
    uint64_t *arrivals; /* when each chunk has arrived, NONE before its fetch has started */
    uint64_t *places;   /* offsets of the resident chunks */
    live_t *live;       /* by offset */
    uint32_t *active;   /* reserved intervals to respect now, by offset */
    uint8_t *best;      /* resident chunks of the best schedule */
    uint8_t *candidate;
    uint32_t *others;
    uint64_t *hashes; /* of each set that was scheduled */
    uint8_t *known;   /* these sets, a byte per chunk */
    uint32_t known_count;
    uint64_t best_cycles;
    /* State of the simulated run. */
    dtn_prefetch_choice_t choice;
    dtn_prefetch_step_t *steps;
    uint32_t step_count;
    uint32_t channels[DTN_PREFETCH_MAX_CHANNELS]; /* the chunk of each, chunk_count for none */
    uint32_t live_count;
    uint32_t active_count;
    uint32_t next_reserved; /* the first that was not active yet */
    uint32_t next;
    uint64_t start; /* offset after the resident chunks */
    uint64_t now;
    uint64_t free; /* when the flash becomes idle */
};

static bool is_in_range(const dtn_prefetch_config_t *config)
{
    if (config->chunk_count > UINT16_MAX || config->call_count > UINT32_MAX / 2U || config->tries > UINT16_MAX ||
        config->reserved_count > UINT32_MAX / 2U || config->scratch > UINT64_MAX - config->area ||
        config->channels == 0 || config->channels > DTN_PREFETCH_MAX_CHANNELS) {
        return false;
    }
    for (uint32_t i = 0; i < config->chunk_count; i++) {
        const dtn_prefetch_chunk_t *c = &config->chunks[i];
        if (c->last < c->first || c->last >= config->call_count || (i > 0 && c->first < c[-1].first)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < config->reserved_count; i++) {
        const dtn_prefetch_reserved_t *w = &config->reserved[i];
        if (w->last < w->first || w->nbytes > config->scratch || w->offset > config->scratch - w->nbytes ||
            (i > 0 && w->first < w[-1].first)) {
            return false;
        }
    }
    return true;
}

static void *allocate(unsigned char *memory, size_t *used, size_t count, size_t size)
{
    void *part = memory == NULL ? NULL : memory + *used;
    *used += (count * size + 7U) & ~(size_t)7U;
    return part;
}

static size_t lay_out(dtn_prefetch_t *s, unsigned char *memory, const dtn_prefetch_config_t *config)
{
    size_t used = (sizeof *s + 7U) & ~(size_t)7U;
    size_t count = config->chunk_count;
    s->rest = allocate(memory, &used, (size_t)config->call_count + 1U, sizeof *s->rest);
    s->arrivals = allocate(memory, &used, count, sizeof *s->arrivals);
    s->places = allocate(memory, &used, count, sizeof *s->places);
    s->live = allocate(memory, &used, count, sizeof *s->live);
    s->active = allocate(memory, &used, config->reserved_count, sizeof *s->active);
    s->best = allocate(memory, &used, count, sizeof *s->best);
    s->candidate = allocate(memory, &used, count, sizeof *s->candidate);
    s->others = allocate(memory, &used, count, sizeof *s->others);
    s->hashes = allocate(memory, &used, config->tries, sizeof *s->hashes);
    s->known = allocate(memory, &used, config->tries * count, sizeof *s->known);
    return used;
}

size_t dtn_prefetch_bytes(const dtn_prefetch_config_t *config)
{
    dtn_prefetch_t search;
    return is_in_range(config) ? lay_out(&search, NULL, config) : 0;
}

dtn_prefetch_t *dtn_prefetch_init(void *memory, const dtn_prefetch_config_t *config)
{
    if (!is_in_range(config)) {
        return NULL;
    }
    dtn_prefetch_t *s = memory;
    lay_out(s, memory, config);
    s->config = *config;
    s->known_count = 0;
    s->best_cycles = DTN_PREFETCH_NONE;
    s->rest[config->call_count] = 0;
    for (uint32_t call = config->call_count; call-- > 0;) {
        s->rest[call] = s->rest[call + 1U] + config->calls[call];
    }
    return s;
}

/* Waits for the fetch on a channel and frees the channel. */
static void wait(dtn_prefetch_t *s, uint32_t call, uint32_t channel)
{
    uint32_t chunk = s->channels[channel];
    if (s->steps != NULL) {
        s->steps[s->step_count++] = (dtn_prefetch_step_t){0, call, chunk, channel, 1};
    }
    s->channels[channel] = s->config.chunk_count;
    s->now = s->arrivals[chunk] > s->now ? s->arrivals[chunk] : s->now;
}

/* Returns a channel for the next fetch: a free one, or the one whose fetch ends first if that has ended or `must` is
 * set; the number of channels if there is none. */
static uint32_t channel_for(dtn_prefetch_t *s, uint32_t call, bool must)
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

/* Sets the active intervals to those that overlap calls `call` to `last`. */
static void activate(dtn_prefetch_t *s, uint32_t call, uint32_t last)
{
    const dtn_prefetch_reserved_t *reserved = s->config.reserved;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->active_count; i++) {
        if (reserved[s->active[i]].last >= call) {
            s->active[kept++] = s->active[i];
        }
    }
    for (; s->next_reserved < s->config.reserved_count && reserved[s->next_reserved].first <= last;
         s->next_reserved++) {
        uint32_t i = kept;
        if (reserved[s->next_reserved].last >= call) {
            for (; i > 0 && reserved[s->active[i - 1U]].offset > reserved[s->next_reserved].offset; i--) {
                s->active[i] = s->active[i - 1U];
            }
            s->active[i] = s->next_reserved;
            kept++;
        }
    }
    s->active_count = kept;
}

/* Returns the start of the first gap of the chunk's size from `at` to `end` between live chunks and the reserved
 * intervals that overlap the chunk's lifetime. */
static uint64_t first_gap(const dtn_prefetch_t *s, uint32_t chunk, uint64_t at, uint64_t end)
{
    uint64_t nbytes = s->config.chunks[chunk].nbytes;
    uint32_t i = 0;
    for (uint32_t w = 0; i < s->live_count || w < s->active_count;) {
        const dtn_prefetch_reserved_t *interval = w < s->active_count ? &s->config.reserved[s->active[w]] : NULL;
        uint64_t offset;
        uint64_t past;
        if (interval != NULL && (i == s->live_count || s->config.area + interval->offset < s->live[i].offset)) {
            w++;
            if (interval->first > s->config.chunks[chunk].last) {
                continue;
            }
            offset = s->config.area + interval->offset;
            past = offset + interval->nbytes;
        } else {
            offset = s->live[i].offset;
            past = s->live[i++].end;
        }
        if (offset >= end || (offset >= at && offset - at >= nbytes)) {
            break;
        }
        at = past > at ? past : at;
    }
    return at <= end && end - at >= nbytes ? at : DTN_PREFETCH_NONE;
}

/* Returns the offset of a chunk that is fetched before `call`: the given one, or the first gap in scratch or the area.
 */
static uint64_t place_for(dtn_prefetch_t *s, uint32_t call, uint32_t chunk)
{
    if (s->choice.offsets != NULL && s->choice.offsets[chunk] != DTN_PREFETCH_NONE) {
        return s->choice.offsets[chunk];
    }
    activate(s, call, s->config.chunks[chunk].last);
    uint64_t offset = first_gap(s, chunk, s->config.area, s->config.area + s->config.scratch);
    return offset != DTN_PREFETCH_NONE ? offset : first_gap(s, chunk, s->start, s->config.area);
}

static void insert_live(dtn_prefetch_t *s, uint32_t chunk, uint64_t offset)
{
    live_t item = {offset, offset + s->config.chunks[chunk].nbytes, chunk};
    uint32_t i = s->live_count++;
    while (i > 0 && s->live[i - 1U].offset > offset) {
        s->live[i] = s->live[i - 1U];
        i--;
    }
    s->live[i] = item;
}

/* Starts the next fetch; returns false if the chunk does not fit or no channel is free. */
static bool issue_one(dtn_prefetch_t *s, uint32_t call, bool must)
{
    if (s->next == s->config.chunk_count) {
        return false; /* the order lacks chunks */
    }
    uint32_t chunk = s->choice.order == NULL ? s->next : s->choice.order[s->next];
    bool stays = s->choice.resident[chunk] != 0;
    if (!stays && !must && s->choice.spots != NULL && s->choice.spots[chunk] > call) {
        return false;
    }
    uint32_t channel = channel_for(s, call, must);
    uint64_t offset = channel == s->config.channels ? DTN_PREFETCH_NONE
                      : stays                       ? s->places[chunk]
                                                    : place_for(s, call, chunk);
    if (offset == DTN_PREFETCH_NONE) {
        return false;
    }
    if (s->steps != NULL) {
        s->steps[s->step_count++] = (dtn_prefetch_step_t){offset, call, chunk, channel, 0};
    }
    s->channels[channel] = chunk;
    s->next++;
    if (stays) {
        s->arrivals[chunk] = 0;
        return true;
    }
    insert_live(s, chunk, offset);
    s->now += s->config.setup;
    s->free = (s->free > s->now ? s->free : s->now) + s->config.chunks[chunk].transfer;
    s->arrivals[chunk] = s->free;
    return true;
}

static void issue(dtn_prefetch_t *s, uint32_t call)
{
    while (issue_one(s, call, false)) {
    }
}

static void wait_for(dtn_prefetch_t *s, uint32_t call, uint32_t chunk)
{
    for (uint32_t channel = 0; channel < s->config.channels; channel++) {
        if (s->channels[channel] == chunk) {
            wait(s, call, channel);
            return;
        }
    }
}

/* Removes the chunks that no later call reads. */
static void release_dead(dtn_prefetch_t *s, uint32_t call)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->live_count; i++) {
        if (s->config.chunks[s->live[i].chunk].last > call) {
            s->live[kept++] = s->live[i];
        }
    }
    s->live_count = kept;
}

static void begin(dtn_prefetch_t *s, const dtn_prefetch_choice_t *choice, dtn_prefetch_step_t *steps)
{
    s->choice = *choice;
    s->steps = steps;
    s->step_count = s->live_count = s->active_count = s->next_reserved = s->next = 0;
    s->start = s->now = s->free = 0;
    for (uint32_t channel = 0; channel < s->config.channels; channel++) {
        s->channels[channel] = s->config.chunk_count;
    }
    for (uint32_t i = 0; i < s->config.chunk_count; i++) {
        s->arrivals[i] = DTN_PREFETCH_NONE;
        s->places[i] = s->start;
        s->start += choice->resident[i] ? s->config.chunks[i].nbytes : 0;
    }
}

/* Returns the cycles of a run; NONE if some chunk does not fit or the run takes more than `most`. */
static uint64_t run(dtn_prefetch_t *s, uint64_t most)
{
    uint32_t needed = 0;
    if (s->start > s->config.area) {
        return DTN_PREFETCH_NONE;
    }
    for (uint32_t call = 0; call < s->config.call_count; call++) {
        issue(s, call);
        for (; needed < s->config.chunk_count && s->config.chunks[needed].first == call; needed++) {
            while (s->arrivals[needed] == DTN_PREFETCH_NONE) {
                if (!issue_one(s, call, true)) {
                    return DTN_PREFETCH_NONE;
                }
            }
            wait_for(s, call, needed);
        }
        /* Waiting took time and may have freed channels: try again. */
        issue(s, call);
        if (s->now + s->rest[call] > most || s->free > most) {
            return DTN_PREFETCH_NONE;
        }
        s->now += s->config.calls[call];
        release_dead(s, call);
    }
    return s->now > s->free ? s->now : s->free;
}

uint64_t dtn_prefetch_schedule(dtn_prefetch_t *search, const dtn_prefetch_choice_t *choice, dtn_prefetch_step_t *steps,
                               uint32_t *step_count)
{
    begin(search, choice, steps);
    uint64_t cycles = run(search, DTN_PREFETCH_NONE);
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

/* Returns true if a set was scheduled before; remembers it. */
static bool is_known(dtn_prefetch_t *s, const uint8_t *resident)
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

void dtn_prefetch_try(dtn_prefetch_t *search, const uint8_t *resident, uint64_t bound)
{
    bool is_best = search->best_cycles != DTN_PREFETCH_NONE && search->best_cycles <= bound;
    if (is_best || search->known_count == search->config.tries || is_known(search, resident)) {
        return;
    }
    const dtn_prefetch_choice_t choice = {resident, NULL, NULL, NULL};
    begin(search, &choice, NULL);
    uint64_t cycles = run(search, search->best_cycles);
    if (cycles != DTN_PREFETCH_NONE && cycles <= search->best_cycles) {
        search->best_cycles = cycles;
        memcpy(search->best, resident, search->config.chunk_count);
    }
}

static void fill(dtn_prefetch_t *s, const uint32_t *order, uint32_t count, uint64_t limit)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t nbytes = s->config.chunks[order[i]].nbytes;
        if (nbytes <= limit) {
            s->candidate[order[i]] = 1;
            limit -= nbytes;
        }
    }
}

void dtn_prefetch_fill(dtn_prefetch_t *search, const uint32_t *order, uint64_t limit, uint64_t bound)
{
    memset(search->candidate, 0, search->config.chunk_count);
    fill(search, order, search->config.chunk_count, limit);
    dtn_prefetch_try(search, search->candidate, bound);
}

typedef struct {
    const uint32_t *words;
    uint32_t count;
    uint32_t next;
} words_t;

/* Returns a random number below `limit`, which is at least 1, by rejection sampling; 0 if no word is accepted. */
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

/* Makes the candidate: the best set with one chunk removed, or with one added and others removed. */
static void change(dtn_prefetch_t *s, words_t *words)
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
    /* Remove one more at random: the streamed chunks need memory, too. */
    uint32_t out = below(words, 2);
    uint32_t skipped = out < count ? out : count;
    memset(s->candidate, 0, s->config.chunk_count);
    s->candidate[chosen] = 1;
    if (s->config.chunks[chosen].nbytes <= s->config.area) {
        fill(s, s->others + skipped, count - skipped, s->config.area - s->config.chunks[chosen].nbytes);
    }
}

void dtn_prefetch_improve(dtn_prefetch_t *search, uint32_t rounds, const uint32_t *words, uint32_t word_count,
                          uint64_t bound)
{
    words_t left = {words, word_count, 0};
    if (search->config.chunk_count == 0 || word_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < rounds && search->best_cycles != DTN_PREFETCH_NONE && search->best_cycles > bound; i++) {
        change(search, &left);
        dtn_prefetch_try(search, search->candidate, bound);
    }
}

uint64_t dtn_prefetch_best(const dtn_prefetch_t *search, uint8_t *resident)
{
    if (search->best_cycles != DTN_PREFETCH_NONE) {
        memcpy(resident, search->best, search->config.chunk_count);
    }
    return search->best_cycles;
}

void dtn_prefetch_offer(dtn_prefetch_t *search, uint64_t cycles)
{
    search->best_cycles = cycles;
    memset(search->best, 0, search->config.chunk_count);
}
