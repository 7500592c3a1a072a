/* The reference: a tee-style relay, as cheap as blocking threads in C can be.
 *
 *     relay FILE COMMAND [ARGUMENT...]
 *
 * Runs COMMAND between two pipes. In each direction one thread reads a chunk, appends it to FILE with one write(2), then
 * hands it on. It frames nothing, judges nothing and stamps nothing: what `mcpproxy run` costs beyond this is the price of a
 * capture. Ends with the exit status of COMMAND, or 128 + the signal that ended it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 65536 };

struct direction {
    int from, to, file;
    char chunk[CHUNK];
};

static int write_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

static void *pump(void *argument) {
    struct direction *way = argument;
    for (;;) {
        ssize_t got = read(way->from, way->chunk, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (write_all(way->file, way->chunk, (size_t)got) < 0) break;
        if (write_all(way->to, way->chunk, (size_t)got) < 0) break;
    }
    close(way->to);
    return NULL;
}

static void fail(const char *what) {
    perror(what);
    exit(2);
}

int main(int argc, char **argv) {
    static struct direction c2s, s2c;
    int to_server[2], from_server[2], status;
    pthread_t upward;

    if (argc < 3) {
        fprintf(stderr, "usage: relay FILE COMMAND [ARGUMENT...]\n");
        return 2;
    }
    int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) fail(argv[1]);
    if (pipe(to_server) < 0 || pipe(from_server) < 0) fail("pipe");
    signal(SIGPIPE, SIG_IGN);

    pid_t server = fork();
    if (server < 0) fail("fork");
    if (server == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(to_server[0], 0);
        dup2(from_server[1], 1);
        close(to_server[0]), close(to_server[1]), close(from_server[0]), close(from_server[1]);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    close(to_server[0]), close(from_server[1]);
    c2s.from = 0, c2s.to = to_server[1], c2s.file = file;
    s2c.from = from_server[0], s2c.to = 1, s2c.file = file;
    if (pthread_create(&upward, NULL, pump, &c2s) != 0) fail("pthread_create");
    pump(&s2c);
    if (waitpid(server, &status, 0) < 0) fail("waitpid");
    /* The upward thread may still be blocked reading from a client that keeps its end open; exiting ends it. */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
