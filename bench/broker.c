/* A broker that keeps nothing: answers every request at once, all requests of one read with one write.
 *
 * Says on stderr where it listens (`listening on 127.0.0.1:PORT`). It answers ApiVersions, Metadata (naming itself as
 * node 0), Heartbeat, Produce, and Fetch with one MiB of records; anything else with ten zero bytes. One thread a
 * connection. */
#include <pthread.h>

#include "kafka.h"

enum { NEWEST_FETCH = 18, OUT = 1024 * 1024, LONGEST_ANSWER = 4096 };

static int port;

/* a Fetch response's body for each version, from behind its correlation id on; made before anybody connects */
static unsigned char *fetch_body[NEWEST_FETCH + 1];
static size_t fetch_size[NEWEST_FETCH + 1];

static const struct {
    int key, min, max;
} APIS[] = {{PRODUCE, 3, PRODUCE_VERSION}, {FETCH, 12, NEWEST_FETCH}, {METADATA, 0, 7},
            {HEARTBEAT, 0, HEARTBEAT_VERSION}, {API_VERSIONS, 0, 4}};
enum { N_APIS = sizeof APIS / sizeof *APIS };

struct connection {
    int fd;
    unsigned char *in, *out;
    struct writer w;
};

static void api_versions(struct writer *w, int version) {
    int flexible = version >= 3;
    put16(w, 0);
    if (flexible) put_varint(w, N_APIS + 1);
    else put32(w, N_APIS);
    for (int i = 0; i < N_APIS; i++) {
        put16(w, APIS[i].key), put16(w, APIS[i].min), put16(w, APIS[i].max);
        if (flexible) put8(w, 0);
    }
    if (version >= 1) put32(w, 0);
    if (flexible) put8(w, 0);
}

/* versions 0-7, the ones before flexible versions and authorized operations */
static void metadata(struct writer *w, int version) {
    if (version >= 3) put32(w, 0);
    put32(w, 1), put32(w, 0), put_string(w, "127.0.0.1"), put32(w, port);
    if (version >= 1) put16(w, -1);
    if (version >= 2) put_string(w, "bench");
    if (version >= 1) put32(w, 0);
    put32(w, 0);
}

/* version 11, with the header's tags, or version 7: one partition, no error */
static void produce(struct writer *w, int version) {
    if (version == OLD_PRODUCE_VERSION) {
        put32(w, 1), put_string(w, "bench"), put32(w, 1), put32(w, 0), put16(w, 0), put64(w, 0), put64(w, -1), put64(w, 0);
        put32(w, 0);
        return;
    }
    put8(w, 0), put_varint(w, 2), put_compact(w, "bench"), put_varint(w, 2);
    put32(w, 0), put16(w, 0), put64(w, 0), put64(w, -1), put64(w, 0), put_varint(w, 1), put_varint(w, 0), put8(w, 0);
    put8(w, 0), put32(w, 0), put8(w, 0);
}

/* version 4, with the header's tags */
static void heartbeat(struct writer *w) { put8(w, 0), put32(w, 0), put16(w, 0), put8(w, 0); }

static void make_fetch(int version) {
    struct writer w = {fetch_body[version] = malloc(RECORDS + LONGEST_ANSWER)};
    put8(&w, 0), put32(&w, 0), put16(&w, 0), put32(&w, 0), put_varint(&w, 2);
    if (version >= 13) put64(&w, 1), put64(&w, 2);
    else put_compact(&w, "bench");
    put_varint(&w, 2), put32(&w, 0), put16(&w, 0), put64(&w, 1), put64(&w, 1), put64(&w, 0);
    put_varint(&w, 0), put32(&w, -1), put_varint(&w, RECORDS + 1), put_records(&w, RECORDS), put8(&w, 0), put8(&w, 0), put8(&w, 0);
    fetch_size[version] = w.at - fetch_body[version];
}

static int flush(struct connection *c) {
    size_t size = c->w.at - c->out;
    c->w.at = c->out;
    return send_all(c->fd, c->out, size);
}

static int answer(struct connection *c, int key, int version, uint32_t correlation_id) {
    if (c->w.at - c->out > OUT - LONGEST_ANSWER && !flush(c)) return 0;
    unsigned char *start = c->w.at;
    put32(&c->w, 0), put32(&c->w, correlation_id);
    if (key == FETCH && version >= 12 && version <= NEWEST_FETCH) {
        set32(start, 4 + fetch_size[version]);
        return flush(c) && send_all(c->fd, fetch_body[version], fetch_size[version]);
    }
    if (key == API_VERSIONS) api_versions(&c->w, version);
    else if (key == METADATA) metadata(&c->w, version);
    else if (key == PRODUCE) produce(&c->w, version);
    else if (key == HEARTBEAT) heartbeat(&c->w);
    else put64(&c->w, 0), put16(&c->w, 0);
    set32(start, c->w.at - start - 4);
    return 1;
}

static void *serve(void *argument) {
    struct connection *c = argument;
    size_t have = 0, skip = 0;
    int key = 0, version = 0, asked = 0, alive = 1;
    uint32_t correlation_id = 0;
    ssize_t got;
    while (alive && (got = recv(c->fd, c->in + have, RECEIVE - have, 0)) > 0) {
        unsigned char *at = c->in, *end = c->in + have + got;
        for (;;) {
            size_t step = skip < (size_t)(end - at) ? skip : (size_t)(end - at);
            at += step, skip -= step;
            if (skip) break;
            if (asked) alive = answer(c, key, version, correlation_id);
            asked = 0;
            if (!alive || end - at < HEAD) break;
            key = get16(at + 4), version = get16(at + 6), correlation_id = get32(at + 8);
            skip = get32(at) - 8, at += HEAD, asked = 1;
        }
        have = end - at;
        memmove(c->in, at, have);
        alive = alive && flush(c);
    }
    close(c->fd);
    free(c->in), free(c->out), free(c);
    return NULL;
}

int main(void) {
    pthread_t thread;
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    for (int version = 12; version <= NEWEST_FETCH; version++) make_fetch(version);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    port = ntohs(address.sin_port);
    fprintf(stderr, "listening on 127.0.0.1:%d\n", port);
    for (;;) {
        struct connection *c = calloc(1, sizeof *c);
        c->fd = accept(listener, NULL, NULL);
        if (c->fd < 0) die("accept");
        no_delay(c->fd);
        c->in = malloc(RECEIVE), c->w.at = c->out = malloc(OUT);
        pthread_create(&thread, NULL, serve, c);
        pthread_detach(thread);
    }
}
