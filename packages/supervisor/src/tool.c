// gpve-supervisor tool: becomes a program that reads or writes what nobody trusts (qemu-img, qemu-nbd, unpackers). The spec
// comes by stdin. Its view holds the named files and nothing else, it has no network and no capabilities, and it ends with
// whoever wanted its work.
#include "supervisor.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static bool prepare(struct spec *spec) {
  syscall(SYS_close_range, 3u, ~0u, 0u);
  if (!spec_read(NULL, spec)) return false;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) != 0) return fail_errno("cannot open /dev/null");
  if (!sockets_open_all(spec)) return false;
  umask(0022); // for the folders of its root
  if (!sandbox_enter(spec)) return false;
  umask(0077);
  // Becoming another user forgets this signal, so it is asked for only now; who died before that is not our parent any more.
  if (spec->parent > 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_errno("cannot ask for the parent's end");
  if (spec->parent > 0 && getppid() != (pid_t)spec->parent) return fail("nobody wants this work any more");
  return descriptors_place();
}

int tool_main(void) {
  static struct spec spec;
  static char listener[32];
  if (prepare(&spec)) {
    if (spec.socket_count > 0 && spec.env_count < MAX_LIST) {
      // How a program learns that a descriptor it got is a socket to serve: sd_listen_fds(3).
      snprintf(listener, sizeof listener, "LISTEN_PID=%d", (int)getpid());
      spec.env[spec.env_count++] = listener;
    }
    spec.args[spec.arg_count] = NULL;
    spec.env[spec.env_count] = NULL;
    execve(spec.program, spec.args, spec.env);
    fail_errno("cannot run %s", spec.program);
  }
  fprintf(stderr, "%s\n", failure());
  return 126;
}
