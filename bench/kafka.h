/* What the fake broker and the load generator both know of Kafka's protocol: how numbers are written, and which messages
 * they exchange. Source: Kafka's message definitions (ProduceRequest.json and so on). Everything lies in one buffer per
 * thread; a message that does not fit is a mistake in these programs and ends them. */
#ifndef BENCH_KAFKA_H
#define BENCH_KAFKA_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, METADATA = 3, HEARTBEAT = 12, API_VERSIONS = 18 };
enum { HEARTBEAT_VERSION = 4, PRODUCE_VERSION = 11, OLD_PRODUCE_VERSION = 7 };
enum { RECORDS = 1024 * 1024, BATCH_HEAD = 61, OLD_PRODUCE_SIZE = 1000 * 1000, RECEIVE = 8 * 1024 * 1024, HEAD = 12 };

static inline void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "not what was expected");
    exit(1);
}

struct writer {
    unsigned char *at;
};

static inline void put8(struct writer *w, int value) { *w->at++ = (unsigned char)value; }

static inline void put16(struct writer *w, int value) { put8(w, value >> 8), put8(w, value); }

static inline void put32(struct writer *w, uint32_t value) { put16(w, value >> 16), put16(w, value); }

static inline void put64(struct writer *w, uint64_t value) { put32(w, value >> 32), put32(w, value); }

static inline void put_varint(struct writer *w, uint32_t value) {
    for (; value >= 0x80; value >>= 7) put8(w, value | 0x80);
    put8(w, value);
}

static inline void put_bytes(struct writer *w, const void *bytes, size_t size) {
    memcpy(w->at, bytes, size);
    w->at += size;
}

/* int16 length */
static inline void put_string(struct writer *w, const char *text) {
    put16(w, strlen(text));
    put_bytes(w, text, strlen(text));
}

/* varint length + 1, as flexible versions have it */
static inline void put_compact(struct writer *w, const char *text) {
    put_varint(w, strlen(text) + 1);
    put_bytes(w, text, strlen(text));
}

/* A batch of so many bytes, its head included: one record that does not compress, so a recorder gets no present. Its
 * checksum is wrong, which nobody on the way looks at. */
static inline void put_records(struct writer *w, uint32_t size) {
    uint32_t state = 2463534242u;
    unsigned char *end = w->at + size;
    put64(w, 0), put32(w, size - 12), put32(w, -1), put8(w, 2), put32(w, 0), put16(w, 0), put32(w, 0);
    put64(w, 1), put64(w, 1), put64(w, -1), put16(w, -1), put32(w, -1), put32(w, 1);
    while (w->at < end) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        put8(w, state);
    }
}

static inline uint32_t get32(const unsigned char *at) { return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]; }

static inline int get16(const unsigned char *at) { return (int16_t)(at[0] << 8 | at[1]); }

static inline void set32(unsigned char *at, uint32_t value) {
    struct writer w = {at};
    put32(&w, value);
}

static inline void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* 0 when the peer is gone */
static inline int send_all(int fd, const unsigned char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        bytes += sent, size -= sent;
    }
    return 1;
}

#endif
