// A guest that another node may start when this one is lost must have ended by then, whatever has become of the agent:
// it may run until a deadline, which whoever holds the node's lease moves on in a file that all its guests share. When it
// passes, the guest is killed from a signal handler: a request that hangs does not keep it alive.
//
// The file: 8 bytes, milliseconds of CLOCK_BOOTTIME in the machine's own order. It is mapped once and kept in memory.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// However far the deadline lies ahead, it is looked at that often: it may be taken back.
enum { LOOK_MS = 1000, MAX_AHEAD_MS = 600000 };

static volatile int64_t *deadline;
static volatile pid_t guarded;
static timer_t timer;
static bool has_timer;

static int64_t boot_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_timer(int64_t after_ms) {
  struct itimerspec when = {.it_value = {.tv_sec = after_ms / 1000, .tv_nsec = after_ms % 1000 * 1000000}};
  timer_settime(timer, 0, &when, NULL);
}

static void look(int number) {
  (void)number;
  int before = errno;
  if (deadline != NULL && guarded > 0) {
    int64_t left = *deadline - boot_ms();
    // A deadline that lies impossibly far ahead was not written by us.
    if (left <= 0 || left > MAX_AHEAD_MS) kill(guarded, SIGKILL);
    set_timer(left <= 0 || left > LOOK_MS ? LOOK_MS : left);
  }
  errno = before;
}

static volatile int64_t *map(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (fd < 0) { fail_errno("cannot open the deadline %s", path); return NULL; }
  void *page = MAP_FAILED;
  if (fstat(fd, &facts) != 0 || facts.st_size < (off_t)sizeof(int64_t)) fail("the deadline %s is too short", path);
  else if ((page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED) fail_errno("cannot read the deadline %s", path);
  close(fd);
  if (page == MAP_FAILED) return NULL;
  mlock(page, sizeof(int64_t)); // without it the page may have to come from the disk
  return page;
}

bool guard_allows(const char *path) {
  volatile int64_t *page = map(path);
  if (page == NULL) return false;
  bool allows = *page > boot_ms();
  munmap((void *)(uintptr_t)page, sizeof(int64_t));
  return allows || fail("this node has no lease on guests under HA any more");
}

bool guard_begin(const char *path, pid_t child) {
  volatile int64_t *page = map(path);
  if (page == NULL) return false;
  if (!has_timer) {
    struct sigaction action = {.sa_handler = look, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGRTMIN, &action, NULL) != 0 || timer_create(CLOCK_BOOTTIME, &event, &timer) != 0) {
      munmap((void *)(uintptr_t)page, sizeof(int64_t));
      return fail_errno("cannot make a timer");
    }
    has_timer = true;
  }
  guard_end();
  guarded = child;
  deadline = page;
  look(0);
  return true;
}

void guard_end(void) {
  void *page = (void *)(uintptr_t)deadline;
  deadline = NULL;
  guarded = 0;
  if (has_timer) set_timer(0);
  if (page != NULL) munmap(page, sizeof(int64_t));
}
