/* One client that asks as fast as it is answered, and checks that the answers come in order.
 *
 *   load HOST:PORT lone SECONDS          one Heartbeat at a time
 *   load HOST:PORT burst SECONDS         64 Heartbeats in one write, then their 64 answers
 *   load HOST:PORT produce SECONDS V     Produce version V (11: one MiB, 7: 1,000,000 bytes in all), 4 in flight
 *   load HOST:PORT small SECONDS N W     Produce version 11 with one record of N bytes; W of them in a write, then W answers
 *   load HOST:PORT fetch SECONDS V       Fetch version V (12-18), answered with one MiB, 4 in flight
 *
 * Prints `exchanges N ns T p50_ns P p99_ns Q p999_ns R`: the percentiles are those of a round (one exchange, or one burst). */
#include <time.h>

#include "kafka.h"

enum { BURST = 64, SMALL = 2048, IN_FLIGHT = 4, MAX_ROUNDS = 4 * 1000 * 1000 };

static int fd;
static uint32_t asked, answered;
static unsigned char *in;
static size_t have;

/* the requests that are sent in one write, and where their correlation ids stand */
static unsigned char *request;
static size_t request_size;
static int api, api_version;
static uint32_t batch_size = RECORDS;

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* before flexible versions: no tags, lengths of 16 and 32 bits; `w` stands behind the client id */
static void make_old_produce(struct writer w) {
    put16(&w, -1), put16(&w, 1), put32(&w, 30000), put32(&w, 1), put_string(&w, "bench"), put32(&w, 1), put32(&w, 0);
    uint32_t records = OLD_PRODUCE_SIZE - (w.at - request) - 4;
    put32(&w, records), put_records(&w, records);
    request_size = w.at - request;
    set32(request, request_size - 4);
}

static void make_request(void) {
    struct writer w = {request = malloc(RECORDS + 4096)};
    put32(&w, 0), put16(&w, api), put16(&w, api_version), put32(&w, 0), put_string(&w, "bench");
    if (api != PRODUCE || api_version != OLD_PRODUCE_VERSION) put8(&w, 0);
    if (api == HEARTBEAT) put_compact(&w, "a-group"), put32(&w, 7), put_compact(&w, "a-member"), put_varint(&w, 0);
    if (api == PRODUCE && api_version == OLD_PRODUCE_VERSION) return make_old_produce(w);
    if (api == PRODUCE) {
        put_varint(&w, 0), put16(&w, -1), put32(&w, 30000), put_varint(&w, 2), put_compact(&w, "bench");
        put_varint(&w, 2), put32(&w, 0), put_varint(&w, batch_size + 1), put_records(&w, batch_size), put8(&w, 0), put8(&w, 0);
    }
    if (api == FETCH) {
        if (api_version < 15) put32(&w, -1);
        put32(&w, 500), put32(&w, 1), put32(&w, 50 << 20), put8(&w, 0), put32(&w, 0), put32(&w, -1);
        put_varint(&w, 1), put_varint(&w, 1), put_compact(&w, "");
    }
    put8(&w, 0);
    request_size = w.at - request;
    set32(request, request_size - 4);
}

static void ask(int count) {
    static unsigned char burst[BURST * SMALL];
    if (request_size > SMALL) {
        while (count--) {
            set32(request + 8, asked++);
            if (!send_all(fd, request, request_size)) die("send");
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        memcpy(burst + i * request_size, request, request_size);
        set32(burst + i * request_size + 8, asked++);
    }
    if (!send_all(fd, burst, count * request_size)) die("send");
}

/* Reads once; counts the answers that are complete then. */
static void read_answers(void) {
    static size_t skip;
    ssize_t got = recv(fd, in + have, RECEIVE - have, 0);
    if (got <= 0) die("the connection was closed");
    unsigned char *at = in, *end = in + have + got;
    for (;;) {
        size_t step = skip < (size_t)(end - at) ? skip : (size_t)(end - at);
        if (skip && step == skip) answered++;
        at += step, skip -= step;
        if (skip || end - at < 8) break;
        errno = 0;
        if (get32(at + 4) != answered) die("an answer's correlation id");
        skip = get32(at) - 4, at += 8;
    }
    have = end - at;
    memmove(in, at, have);
}

static int by_value(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

int main(int count, char **arguments) {
    if (count < 4) return fprintf(stderr, "load HOST:PORT lone|burst|produce|small|fetch SECONDS [VERSION]\n"), 2;
    const char *what = arguments[2];
    uint64_t length = atof(arguments[3]) * 1e9, rounds = 0;
    uint32_t *times = malloc(MAX_ROUNDS * sizeof *times);
    int window = !strcmp(what, "burst") ? BURST : !strcmp(what, "lone") ? 1 : IN_FLIGHT;
    int small = !strcmp(what, "small");
    if (small) {
        if (count < 6) die("N W");
        batch_size = BATCH_HEAD + atoi(arguments[4]), window = atoi(arguments[5]);
        if (window < 1 || window > BURST) die("W");
    }
    api = small || !strcmp(what, "produce") ? PRODUCE : !strcmp(what, "fetch") ? FETCH : HEARTBEAT;
    if (api != HEARTBEAT && count < 5) die("VERSION");
    api_version = api == HEARTBEAT ? HEARTBEAT_VERSION : small ? PRODUCE_VERSION : atoi(arguments[4]);

    char *colon = strrchr(arguments[1], ':');
    if (!colon) die("HOST:PORT");
    *colon = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(colon + 1))};
    if (!inet_aton(arguments[1], &address.sin_addr)) die("HOST is no address");
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    no_delay(fd);
    struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    in = malloc(RECEIVE);
    make_request();

    int large = !small && window == IN_FLIGHT;
    uint64_t start = now_ns(), last = start;
    if (large) ask(window);
    for (int more = 1; more || answered != asked;) {
        uint32_t before = answered;
        if (!large) ask(window);
        while (large ? answered == before : answered != asked) read_answers();
        more = last - start < length && rounds < MAX_ROUNDS - IN_FLIGHT;
        if (large && more) ask(answered - before);
        uint64_t now = now_ns();
        times[rounds++] = now - last > UINT32_MAX ? UINT32_MAX : now - last;
        last = now;
    }
    qsort(times, rounds, sizeof *times, by_value);
    printf("exchanges %u ns %llu p50_ns %u p99_ns %u p999_ns %u\n", answered, (unsigned long long)(last - start),
           times[rounds / 2], times[rounds * 99 / 100], times[rounds * 999 / 1000]);
    return 0;
}
