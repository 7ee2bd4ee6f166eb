/* Library for LD_PRELOAD that stands between a process and its machine, for tests.
 *
 * TAILBACK_LOG=FILE TAILBACK_ROOT=DIRECTORY: appends each change below the directory to the file, in the order in which
 * the calls returned: what was written, created, renamed, removed and synced. The test replays a part of it, without
 * what was not synced, as a power cut would.
 * TAILBACK_CLOCK_S=N: moves the wall clock by N seconds.
 *
 * Entry: one letter, then numbers as 64 bits, then texts and data with their length. Files are known by their inode.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *root;
static size_t root_length;
static long long clock_s;

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, name)

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_write)(int, const void *, size_t);

__attribute__((constructor)) static void begin(void) {
    real_open = dlsym(RTLD_NEXT, "open64");
    real_write = dlsym(RTLD_NEXT, "write");
    const char *offset = getenv("TAILBACK_CLOCK_S");
    if (offset) clock_s = atoll(offset);
    const char *log = getenv("TAILBACK_LOG");
    root = getenv("TAILBACK_ROOT");
    if (!log || !root) return;
    root_length = strlen(root);
    log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Absolute path of a path that may be relative to a directory. Empty if it is not below the root. */
static int below(int dir, const char *path, char *out) {
    if (log_fd < 0) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        if (dir == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return 0;
        base[n] = 0;
        if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    return strncmp(out, root, root_length) == 0 && out[root_length] == '/';
}

static int is_ours(int fd, uint64_t *inode) {
    char link[64], path[PATH_MAX];
    if (log_fd < 0 || fd == log_fd) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    if (strncmp(path, root, root_length) || path[root_length] != '/') return 0;
    struct stat s;
    if (fstat(fd, &s)) return 0;
    *inode = s.st_ino;
    return 1;
}

static uint64_t inode_of(const char *path) {
    struct stat s;
    return lstat(path, &s) ? 0 : s.st_ino;
}

static void put(char what, uint64_t a, uint64_t b, const char *one, size_t n, const char *two, size_t m) {
    uint64_t numbers[4] = {a, b, n, m};
    struct iovec parts[4] = {{&what, 1}, {numbers, sizeof numbers}, {(void *)one, n}, {(void *)two, m}};
    ssize_t all = 1 + sizeof numbers + n + m;
    if (writev(log_fd, parts, 4) != all) abort();
}

static void put_path(char what, uint64_t inode, const char *path) {
    put(what, inode, 0, path + root_length + 1, strlen(path + root_length + 1), "", 0);
}

#define LOCKED(call) \
    pthread_mutex_lock(&alone); \
    call; \
    int kept_errno = errno

#define UNLOCKED \
    pthread_mutex_unlock(&alone); \
    errno = kept_errno

static int open_at(int dir, const char *path, int flags, mode_t mode) {
    REAL(int, "openat64", int, const char *, int, ...);
    char full[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !below(dir, path, full)) return real(dir, path, flags, mode);
    pthread_mutex_lock(&alone);
    int was_there = access(full, F_OK) == 0;
    int fd = real(dir, path, flags, mode);
    int kept_errno = errno;
    struct stat s;
    if (fd >= 0 && !fstat(fd, &s)) {
        if (!was_there) put_path('C', s.st_ino, full);
        else if (flags & O_TRUNC) put('T', s.st_ino, 0, "", 0, "", 0);
    }
    UNLOCKED;
    return fd;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return open_at(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return open_at(dir, path, flags, mode); }

ssize_t write(int fd, const void *data, size_t size) {
    uint64_t inode;
    if (!is_ours(fd, &inode)) return real_write(fd, data, size);
    LOCKED(ssize_t n = real_write(fd, data, size));
    if (n > 0) put('W', inode, (uint64_t)(lseek(fd, 0, SEEK_CUR) - n), data, n, "", 0);
    UNLOCKED;
    return n;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    uint64_t inode;
    if (!is_ours(fd, &inode)) return real(fd, data, size, at);
    LOCKED(ssize_t n = real(fd, data, size, at));
    if (n > 0) put('W', inode, at, data, n, "", 0);
    UNLOCKED;
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

/* Data in several buffers goes as several writes: a caller of writev must accept less than all. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    uint64_t inode;
    if (!is_ours(fd, &inode) || count < 1) return real(fd, parts, count);
    int at = 0;
    while (at < count - 1 && !parts[at].iov_len) at++;
    return write(fd, parts[at].iov_base, parts[at].iov_len);
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    uint64_t inode;
    if (!is_ours(fd, &inode)) return real(fd, size);
    LOCKED(int failed = real(fd, size));
    if (!failed) put('T', inode, size, "", 0, "", 0);
    UNLOCKED;
    return failed;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int synced(int fd, int (*real)(int)) {
    uint64_t inode;
    if (!is_ours(fd, &inode)) return real(fd);
    LOCKED(int failed = real(fd));
    if (!failed) put('S', inode, 0, "", 0, "", 0);
    UNLOCKED;
    return failed;
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return synced(fd, real);
}

static int rename_at(int dir, const char *from, int dir_to, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    char a[PATH_MAX], b[PATH_MAX];
    if (!below(dir, from, a) || !below(dir_to, to, b)) return real(dir, from, dir_to, to);
    LOCKED(int failed = real(dir, from, dir_to, to));
    if (!failed) {
        const char *one = a + root_length + 1, *two = b + root_length + 1;
        put('R', 0, 0, one, strlen(one), two, strlen(two));
    }
    UNLOCKED;
    return failed;
}

int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int a, const char *from, int b, const char *to) { return rename_at(a, from, b, to); }

int linkat(int dir, const char *from, int dir_to, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    char b[PATH_MAX];
    if (!below(dir_to, to, b)) return real(dir, from, dir_to, to, flags);
    LOCKED(int failed = real(dir, from, dir_to, to, flags));
    if (!failed) put_path('L', inode_of(b), b);
    UNLOCKED;
    return failed;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

static int unlink_at(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char full[PATH_MAX];
    if (!below(dir, path, full)) return real(dir, path, flags);
    LOCKED(int failed = real(dir, path, flags));
    if (!failed) put_path('U', 0, full);
    UNLOCKED;
    return failed;
}

int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int dir, const char *path, int flags) { return unlink_at(dir, path, flags); }

static int mkdir_at(int dir, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char full[PATH_MAX];
    if (!below(dir, path, full)) return real(dir, path, mode);
    LOCKED(int failed = real(dir, path, mode));
    if (!failed) put_path('D', inode_of(full), full);
    UNLOCKED;
    return failed;
}

int mkdir(const char *path, mode_t mode) { return mkdir_at(AT_FDCWD, path, mode); }
int mkdirat(int dir, const char *path, mode_t mode) { return mkdir_at(dir, path, mode); }

int clock_gettime(clockid_t which, struct timespec *out) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int failed = real(which, out);
    if (!failed && which == CLOCK_REALTIME) out->tv_sec += clock_s;
    return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    REAL(int, "gettimeofday", struct timeval *, void *);
    int failed = real(out, zone);
    if (!failed) out->tv_sec += clock_s;
    return failed;
}

time_t time(time_t *out) {
    REAL(time_t, "time", time_t *);
    time_t now = real(NULL) + clock_s;
    if (out) *out = now;
    return now;
}
