/* Preloaded into a program, it disturbs the matrix products of one rank. For tests only.

   FAULT_RANK    the rank that suffers
   FAULT_FIRST   the number of the first weight gradient (a product whose left operand is transposed) that gets a NaN; 0: none
   FAULT_TIMES   so many of them, then all is well again
   FAULT_MICROSECONDS  every product takes so much longer */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRANSPOSED = 112 }; /* CblasTrans */

typedef void (*Product)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);

static long long first = 0, times = 0, delay = 0, seen = 0;
static int here = 0;

static long long number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoll(text) : 0;
}

static Product setup(void) {
  static Product real = NULL;
  if (real != NULL) return real;
  const char *rank = getenv("FAULT_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");
  here = rank != NULL && strcmp(rank, mine != NULL ? mine : "0") == 0;
  first = number("FAULT_FIRST"), times = number("FAULT_TIMES"), delay = number("FAULT_MICROSECONDS");
  real = (Product)dlsym(RTLD_NEXT, "cblas_dgemm");
  return real;
}

void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b,
                 int ldb, double beta, double* c, int ldc) {
  setup()(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (!here) return;
  if (delay > 0) {
    struct timespec pause = {delay / 1000000, delay % 1000000 * 1000};
    nanosleep(&pause, NULL);
  }
  if (ta != TRANSPOSED || first == 0) return;
  if (++seen >= first && seen < first + times) c[0] = NAN;
}
