/* A broker that keeps nothing: answers every request at once, all requests of one read with one write.
 *
 *   broker            answers ApiVersions, Metadata (naming itself as node 0), Heartbeat, Produce, and Fetch with one MiB
 *                     of records; anything else with ten zero bytes
 *   broker FILE       answers by what FILE says, read when the first client connects: for each answer the api key, the
 *                     version (int16), the client id (int16 length; "": of everybody else), the size (int32), and the
 *                     bytes from behind the correlation id on. What stands there nowhere gets ten zero bytes
 *
 * Says on stderr where it listens (`listening on 127.0.0.1:PORT`). One thread a connection. */
#include <pthread.h>

#include "kafka.h"

enum { NEWEST_FETCH = 18, OUT = 1024 * 1024, LONGEST_ANSWER = 4096, LONGEST_CLIENT_ID = 64, MOST_TOLD = 4096 };

static int port;

/* what FILE says; `told` is null without one */
struct told {
    int key, version, client_id_size, size;
    unsigned char *client_id, *body;
};
static struct told *told;
static int n_told;

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

static void read_told(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    unsigned char *at = malloc(RECEIVE), *end = at + fread(at, 1, RECEIVE, file);
    fclose(file);
    told = calloc(MOST_TOLD, sizeof *told);
    for (; at < end && n_told < MOST_TOLD; n_told++) {
        struct told *one = &told[n_told];
        one->key = get16(at), one->version = get16(at + 2), one->client_id_size = get16(at + 4), at += 6;
        one->client_id = at, at += one->client_id_size;
        one->size = get32(at), one->body = at + 4, at += 4 + one->size;
        if (at > end || one->size > LONGEST_ANSWER / 2) die("what FILE says");
    }
}

/* The answer for a client id, else that for everybody. */
static const struct told *find_told(int key, int version, const unsigned char *client_id, int size) {
    const struct told *general = NULL;
    for (const struct told *one = told; one < told + n_told; one++) {
        if (one->key != key || one->version != version) continue;
        if (one->client_id_size == size && !memcmp(one->client_id, client_id, size)) return one;
        if (!one->client_id_size) general = one;
    }
    return general;
}

static int answer(struct connection *c, int key, int version, uint32_t correlation_id, const struct told *found) {
    if (c->w.at - c->out > OUT - LONGEST_ANSWER && !flush(c)) return 0;
    unsigned char *start = c->w.at;
    put32(&c->w, 0), put32(&c->w, correlation_id);
    if (told) {
        if (found) put_bytes(&c->w, found->body, found->size);
        else put64(&c->w, 0), put16(&c->w, 0);
        set32(start, c->w.at - start - 4);
        return 1;
    }
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

/* A request's head ends with the client id, which is never long here. */
static int has_client_id(const unsigned char *at, const unsigned char *end) {
    if (end - at < HEAD + 2) return 0;
    if (get16(at + HEAD) > LONGEST_CLIENT_ID) die("a client id");
    return end - at >= HEAD + 2 + get16(at + HEAD);
}

static void *serve(void *argument) {
    struct connection *c = argument;
    size_t have = 0, skip = 0;
    int key = 0, version = 0, asked = 0, alive = 1;
    uint32_t correlation_id = 0;
    const struct told *found = NULL;
    ssize_t got;
    while (alive && (got = recv(c->fd, c->in + have, RECEIVE - have, 0)) > 0) {
        unsigned char *at = c->in, *end = c->in + have + got;
        for (;;) {
            size_t step = skip < (size_t)(end - at) ? skip : (size_t)(end - at);
            at += step, skip -= step;
            if (skip) break;
            if (asked) alive = answer(c, key, version, correlation_id, found);
            asked = 0;
            if (!alive || end - at < HEAD) break;
            if (told && !has_client_id(at, end)) break;
            key = get16(at + 4), version = get16(at + 6), correlation_id = get32(at + 8);
            if (told) found = find_told(key, version, at + HEAD + 2, get16(at + HEAD));
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

int main(int count, char **arguments) {
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
        if (count > 1 && !told) read_told(arguments[1]);
        c->in = malloc(RECEIVE), c->w.at = c->out = malloc(OUT);
        pthread_create(&thread, NULL, serve, c);
        pthread_detach(thread);
    }
}
