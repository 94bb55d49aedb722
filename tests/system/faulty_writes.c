/* Preloaded into a program, it makes writes to unfinished checkpoints fail. For tests only.

   FAULT_RANK   the rank that suffers
   FAULT_BYTES  so many bytes of files with FAULT_PATH in their names can be written; the call that crosses the line
                writes what fits and fails the next time, as a full disk does
   FAULT_ERRNO  with this number
   FAULT_PATH   default ".part"
   FAULT_TIMES  so many failures, then all is well again; default: for ever */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long long left = -1, times = -1;
static int code = 0, here = 0;
static const char* part = ".part";

static void setup(void) {
  static int done = 0;
  if (done) return;
  done = 1;
  const char *rank = getenv("FAULT_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK"), *text;
  here = rank != NULL && strcmp(rank, mine != NULL ? mine : "0") == 0;
  if ((text = getenv("FAULT_BYTES")) != NULL) left = atoll(text);
  if ((text = getenv("FAULT_ERRNO")) != NULL) code = atoi(text);
  if ((text = getenv("FAULT_TIMES")) != NULL) times = atoll(text);
  if ((text = getenv("FAULT_PATH")) != NULL) part = text;
}

static int concerns(int fd) {
  char link[64], path[4096];
  setup();
  if (!here || times == 0) return 0;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path) - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return strstr(path, part) != NULL;
}

/* How many of n bytes may be written; -1: fail. */
static long long allowed(int fd, long long n) {
  if (!concerns(fd)) return n;
  if (left <= 0) {
    if (times > 0) --times;
    errno = code;
    return -1;
  }
  long long now = n < left ? n : left;
  left -= now;
  return now;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite(int fd, const void* data, size_t n, off_t at) {
  long long may = allowed(fd, (long long)n);
  return may < 0 ? -1 : REAL(pwrite)(fd, data, (size_t)may, at);
}
ssize_t pwrite64(int fd, const void* data, size_t n, off64_t at) {
  long long may = allowed(fd, (long long)n);
  return may < 0 ? -1 : REAL(pwrite64)(fd, data, (size_t)may, at);
}
ssize_t write(int fd, const void* data, size_t n) {
  long long may = allowed(fd, (long long)n);
  return may < 0 ? -1 : REAL(write)(fd, data, (size_t)may);
}

static size_t total(const struct iovec* v, int count) {
  size_t n = 0;
  for (int i = 0; i < count; ++i) n += v[i].iov_len;
  return n;
}
/* A part of several pieces: the first of them only, which is a short write like any other. */
ssize_t pwritev(int fd, const struct iovec* v, int count, off_t at) {
  size_t n = total(v, count);
  long long may = allowed(fd, (long long)n);
  if (may < 0) return -1;
  if ((size_t)may == n) return REAL(pwritev)(fd, v, count, at);
  return REAL(pwrite)(fd, v[0].iov_base, (size_t)may < v[0].iov_len ? (size_t)may : v[0].iov_len, at);
}
ssize_t pwritev64(int fd, const struct iovec* v, int count, off64_t at) {
  size_t n = total(v, count);
  long long may = allowed(fd, (long long)n);
  if (may < 0) return -1;
  if ((size_t)may == n) return REAL(pwritev64)(fd, v, count, at);
  return REAL(pwrite64)(fd, v[0].iov_base, (size_t)may < v[0].iov_len ? (size_t)may : v[0].iov_len, at);
}
