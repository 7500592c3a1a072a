/* The client of the benchmark: starts a command, talks to it, and prints what it measured as one JSON object.
 *
 *     client ping COUNT WARMUP -- COMMAND...    one 400-byte frame in flight; time of each round trip
 *     client flood COUNT WINDOW -- COMMAND...   frames without waiting, at most WINDOW unanswered
 *     client start 1 0 -- COMMAND...            from before the fork to the first answer
 *     client giant SIZE 0 -- COMMAND...         a frame of SIZE bytes there, then one of SIZE bytes back
 *
 * In C, because the noise of a client in Python is larger than what a relay costs. After the object, it waits for the end of
 * its own stdin with the command still running, so that the caller can measure its memory; then it closes the command's
 * stdin and exits with 0 if the command did, else with 1. It gives up after five minutes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 400, CHUNK = 65536, BATCH = 128, DEADLINE_S = 300 };

static int to_command, from_command;
static pid_t command;
static char buffer[CHUNK];

static void fail(const char *what) {
    fprintf(stderr, "client: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Fills `frame` with a request of exactly FRAME bytes, newline included. */
static void request(char *frame, long id) {
    static const char tail[] = "\"},\"_meta\":{\"progressToken\":\"p-17\"}}}\n";
    static const char words[] = "what crossed the wire is what the record says ";
    size_t used = (size_t)snprintf(frame, FRAME,
        "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{\"name\":\"search\",\"arguments\":{\"limit\":20,\"text\":\"", id);
    for (size_t end = FRAME - sizeof tail + 1, at = 0; used < end; at++) frame[used++] = words[at % (sizeof words - 1)];
    memcpy(frame + used, tail, sizeof tail - 1);
}

static void start(char **argv) {
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0) fail("pipe");
    command = fork();
    if (command < 0) fail("fork");
    if (command == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    to_command = in[1], from_command = out[0];
    fcntl(to_command, F_SETFD, FD_CLOEXEC), fcntl(from_command, F_SETFD, FD_CLOEXEC);
}

static void send_all(const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t done = write(to_command, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) fail("write to the command");
        bytes += done, size -= (size_t)done;
    }
}

static size_t receive(void) {
    for (;;) {
        ssize_t got = read(from_command, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("read from the command");
        if (got == 0) errno = 0, fail("the command closed its stdout");
        return (size_t)got;
    }
}

/* Reads up to the end of one line; returns its length without the newline. The first chunk of it stays in `buffer`. */
static long long line(void) {
    long long length = 0;
    for (;;) {
        size_t got = receive();
        char *newline = memchr(buffer, '\n', got);
        length += (long long)got;
        if (newline != NULL) {
            if (newline != buffer + got - 1) errno = 0, fail("more than one answer at once");
            return length - 1;
        }
    }
}

static long long round_trip(long id) {
    char frame[FRAME], expected[48];
    request(frame, id);
    int size = snprintf(expected, sizeof expected, "{\"jsonrpc\":\"2.0\",\"id\":%ld,", id);
    long long began = now_ns();
    send_all(frame, FRAME);
    line();
    long long took = now_ns() - began;
    if (memcmp(buffer, expected, (size_t)size) != 0) errno = 0, fail("an answer of another id");
    return took;
}

static int ascending(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static void ping(long count, long warmup) {
    long long *took = malloc((size_t)count * sizeof *took);
    if (took == NULL) fail("malloc");
    for (long i = 0; i < warmup; i++) round_trip(i);
    for (long i = 0; i < count; i++) took[i] = round_trip(warmup + i);
    qsort(took, (size_t)count, sizeof *took, ascending);
    printf("{\"p50_ns\":%lld,\"p99_ns\":%lld,\"p999_ns\":%lld,\"max_ns\":%lld,\"frames\":%ld,\"pid\":%d}\n", took[count / 2],
           took[count * 99 / 100], took[count * 999 / 1000], took[count - 1], 2 * (warmup + count), (int)command);
}

/* Puts up to BATCH further frames into `batch`; returns how many bytes. */
static size_t refill(char *batch, long *made, long answered, long count, long window) {
    size_t size = 0;
    while (*made < count && *made - answered < window && size < (size_t)BATCH * FRAME) {
        request(batch + size, 1 + (*made)++);
        size += FRAME;
    }
    return size;
}

static void flood(long count, long window) {
    static char batch[BATCH * FRAME];
    long made = 0, answered = 0;
    size_t at = 0, size = 0;
    round_trip(0); /* the start-up is a separate figure */
    fcntl(to_command, F_SETFL, O_NONBLOCK);
    long long began = now_ns();
    while (answered < count) {
        if (at == size) at = 0, size = refill(batch, &made, answered, count, window);
        struct pollfd fds[2] = {{from_command, POLLIN, 0}, {at < size ? to_command : -1, POLLOUT, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) fail("poll");
        if (fds[1].revents) {
            ssize_t done = write(to_command, batch + at, size - at);
            if (done < 0 && errno != EAGAIN && errno != EINTR) fail("write to the command");
            if (done > 0) at += (size_t)done;
        }
        if (fds[0].revents) {
            size_t got = receive();
            for (char *p = buffer; (p = memchr(p, '\n', got - (size_t)(p - buffer))) != NULL; p++) answered++;
        }
    }
    double seconds = (double)(now_ns() - began) / 1e9;
    printf("{\"per_s\":%.1f,\"seconds\":%.4f,\"frames\":%ld,\"pid\":%d}\n", (double)count / seconds, seconds, 2 * (count + 1),
           (int)command);
}

static void giant(long size) {
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"text\":\"", tail[] = "\"}}\n";
    char ask[128];
    long long began = now_ns();
    send_all(head, sizeof head - 1);
    memset(buffer, 'x', sizeof buffer);
    for (long left = size - (long)(sizeof head + sizeof tail) + 2; left > 0; left -= CHUNK)
        send_all(buffer, left < CHUNK ? (size_t)left : CHUNK);
    send_all(tail, sizeof tail - 1);
    line();
    long long there = now_ns() - began;
    int used = snprintf(ask, sizeof ask, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"giant\":%ld}}\n", size);
    began = now_ns();
    send_all(ask, (size_t)used);
    if (line() != size - 1) errno = 0, fail("an answer of another size");
    printf("{\"there_ns\":%lld,\"back_ns\":%lld,\"frames\":4,\"pid\":%d}\n", there, now_ns() - began, (int)command);
}

int main(int argc, char **argv) {
    if (argc < 6 || strcmp(argv[4], "--") != 0) {
        fprintf(stderr, "usage: client ping|flood|start|giant COUNT WARMUP|WINDOW -- COMMAND...\n");
        return 2;
    }
    long count = atol(argv[2]), extra = atol(argv[3]);
    int status;
    signal(SIGPIPE, SIG_IGN);
    alarm(DEADLINE_S);
    long long began = now_ns();
    start(argv + 5);
    if (strcmp(argv[1], "ping") == 0) ping(count, extra);
    else if (strcmp(argv[1], "flood") == 0) flood(count, extra);
    else if (strcmp(argv[1], "giant") == 0) giant(count);
    else {
        round_trip(0);
        printf("{\"start_ns\":%lld,\"frames\":2,\"pid\":%d}\n", now_ns() - began, (int)command);
    }
    fflush(stdout);
    while (read(0, buffer, sizeof buffer) > 0) continue;
    close(to_command);
    if (waitpid(command, &status, 0) < 0) fail("waitpid");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
