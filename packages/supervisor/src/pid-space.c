// A space of process numbers for one guest: whoever is in it can name nobody outside, so it can neither trace nor signal
// anybody there, not even processes of its own user. It needs a first process; the guest is the second, and so keeps the
// ordinary meaning of signals. When the guest ends, however it ends, the first process does, and the kernel ends the rest.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { GUEST = 2 }; // its number in the space

// Told once the guest is there; without the guest there is nothing to wait for.
static void first_process(const struct spec *spec, char *named, int told) {
  char byte;
  memset(named, 0, strlen(named));
  struct pollfd guest = {.events = POLLIN};
  prctl(PR_SET_NAME, "gpve-first", 0, 0, 0);
  signal(SIGCHLD, SIG_IGN); // what the guest leaves behind is reaped by the kernel
  signal(SIGALRM, SIG_DFL);
  // The guest's descriptors end with the guest, the report with the supervisor.
  if (dup2(told, 0) < 0) _exit(1);
  syscall(SYS_close_range, 1u, ~0u, 0u);
  // Nobody may trace it, also where it has the guest's user; signals from inside do not reach it.
  bool dropped = !spec->has_gid || (setgroups(0, NULL) == 0 && setresgid(spec->gid, spec->gid, spec->gid) == 0);
  dropped = dropped && (!spec->has_uid || setresuid(spec->uid, spec->uid, spec->uid) == 0);
  if (!dropped || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) _exit(1);
  if (read(0, &byte, 1) != 1) _exit(1);
  guest.fd = (int)syscall(SYS_pidfd_open, GUEST, 0);
  while (guest.fd >= 0 && guest.revents == 0) poll(&guest, 1, -1);
  _exit(0);
}

// A child of our parent's, in whatever space children of ours are.
static pid_t fork_sibling(void) { return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL); }

// Makes both and goes; it alone has children in the space, so that later ones of the supervisor's are not in it: without
// root there would be no way back. The supervisor hears their numbers, or an error.
static bool is_guest(const struct spec *spec, char *named, int line) {
  int told[2], answer[2] = {0, 0};
  if (pipe2(told, O_CLOEXEC) != 0 || unshare(CLONE_NEWPID) != 0) answer[0] = -errno;
  else if ((answer[0] = fork_sibling()) == 0) first_process(spec, named, told[0]);
  else if (answer[0] > 0 && (answer[1] = fork_sibling()) == 0) return true;
  for (int i = 0; i < 2 && answer[0] > 0; i++)
    if (answer[i] < 0) answer[0] = -errno;
  // Whoever is not told, ends.
  _exit(write(line, answer, sizeof answer) == sizeof answer && answer[0] > 0 && write(told[1], "g", 1) == 1 ? 0 : 1);
}

pid_t pid_space_fork(const struct spec *spec, char *named, pid_t *first) {
  int line[2], answer[2] = {0, 0};
  if (pipe2(line, O_CLOEXEC) != 0) return -1;
  pid_t between = fork();
  if (between < 0) return -1;
  if (between == 0 && is_guest(spec, named, line[1])) return 0;
  close(line[1]);
  bool heard = read(line[0], answer, sizeof answer) == sizeof answer;
  close(line[0]);
  waitpid(between, NULL, 0);
  errno = heard && answer[0] < 0 ? -answer[0] : EIO;
  if (!heard || answer[0] < 0) return -1;
  *first = answer[0];
  return answer[1];
}
