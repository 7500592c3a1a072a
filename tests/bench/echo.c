/* The server of the benchmark: answers each line with a JSON-RPC result with the same id.
 *
 *     echo
 *
 * An answer is a frame of 400 bytes, newline included; a request that begins with "giant":N among its first bytes gets an
 * answer of N bytes. Answers to one chunk go out in one write(2), so that a flood never waits for the server.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536, HEAD = 256, ANSWER = 400 };

static char out[CHUNK + ANSWER];
static size_t held;

static void flush(void) {
    size_t at = 0;
    while (at < held) {
        ssize_t done = write(1, out + at, held - at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) exit(1);
        at += (size_t)done;
    }
    held = 0;
}

static void put(const char *bytes, size_t size) {
    while (size > 0) {
        size_t room = CHUNK - held < size ? CHUNK - held : size;
        memcpy(out + held, bytes, room);
        held += room, bytes += room, size -= room;
        if (held >= CHUNK) flush();
    }
}

/* The head holds the id and, in a giant request, the size: only that much of a line is ever kept. */
static void answer(const char *head) {
    static const char tail[] = "\"}],\"isError\":false}}\n";
    static const char words[] = "a capture outlives the session that it was made of ";
    const char *id = strstr(head, "\"id\":");
    const char *giant = strstr(head, "\"giant\":");
    char start[128];
    if (id == NULL) return; /* a notification */
    long size = giant == NULL ? ANSWER : strtol(giant + 8, NULL, 10);
    int used = snprintf(start, sizeof start, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"",
                        strtol(id + 5, NULL, 10));
    put(start, (size_t)used);
    for (long left = size - used - (long)sizeof tail + 1; left > 0; left -= (long)sizeof words - 1)
        put(words, left < (long)sizeof words - 1 ? (size_t)left : sizeof words - 1);
    put(tail, sizeof tail - 1);
}

int main(void) {
    static char chunk[CHUNK];
    char head[HEAD + 1];
    size_t known = 0;
    for (;;) {
        ssize_t got = read(0, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        for (char *at = chunk, *end = chunk + got; at < end;) {
            char *newline = memchr(at, '\n', (size_t)(end - at));
            char *stop = newline == NULL ? end : newline;
            size_t take = (size_t)(stop - at) < HEAD - known ? (size_t)(stop - at) : HEAD - known;
            memcpy(head + known, at, take);
            known += take;
            if (newline != NULL) {
                head[known] = '\0';
                answer(head);
                known = 0;
            }
            at = stop + 1;
        }
        flush();
    }
    return 0;
}
