/* Preloaded into a process: its wall clock goes as many seconds ahead as stand in the file WALL_CLOCK, from when they
   stand there. Other clocks go as ever. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t nothing;
static volatile int64_t *ahead = &nothing;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WALL_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED)
    abort();
  ahead = shared;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  long failed = syscall(SYS_clock_gettime, clock, time);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += *ahead;
  return (int)failed;
}
