// gpve-supervisor tool: runs a program that reads or writes what nobody trusts (qemu-img, qemu-nbd, unpackers). The spec
// comes by stdin. Its view holds the named files and nothing else, it has no network, no capabilities and no processes but
// its own, and it ends with whoever wanted its work. We wait for it, outside, and end as it did.
#include "supervisor.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// `line` hangs up when whoever waits for us has ended.
static bool prepare(const struct spec *spec, int line) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) != 0) return fail_errno("cannot open /dev/null");
  if (!sockets_open_all(spec)) return false;
  umask(0022); // for the folders of its root
  if (!sandbox_enter(spec)) return false;
  umask(0077);
  // Becoming another user forgets this signal, so it is asked for only now; who died before that does not send it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_errno("cannot ask for the parent's end");
  struct pollfd parent = {.fd = line};
  if (poll(&parent, 1, 0) != 0) return fail("nobody wants this work any more");
  return descriptors_place();
}

static void become(struct spec *spec, int line) {
  static char listener[32];
  if (prepare(spec, line)) {
    if (spec->socket_count > 0 && spec->env_count < MAX_LIST) {
      // How a program learns that a descriptor it got is a socket to serve: sd_listen_fds(3).
      snprintf(listener, sizeof listener, "LISTEN_PID=%d", (int)getpid());
      spec->env[spec->env_count++] = listener;
    }
    spec->args[spec->arg_count] = NULL;
    spec->env[spec->env_count] = NULL;
    execve(spec->program, spec->args, spec->env);
    fail_errno("cannot run %s", spec->program);
  }
  fprintf(stderr, "%s\n", failure());
  fflush(stderr);
  _exit(126);
}

static int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none); // ours would say nothing
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

static bool started(struct spec *spec, pid_t *child) {
  int line[2];
  syscall(SYS_close_range, 3u, ~0u, 0u);
  if (!spec_read(NULL, spec)) return false;
  if (spec->user_namespace && !user_namespace_enter()) return false;
  if (spec->parent > 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return fail_errno("cannot ask for the parent's end");
  if (spec->parent > 0 && getppid() != (pid_t)spec->parent) return fail("nobody wants this work any more");
  if (pipe2(line, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe");
  if (spec->own_pids && unshare(CLONE_NEWPID) != 0) return fail_errno("cannot make a process space");
  *child = fork();
  if (*child < 0) return fail_errno("cannot fork");
  if (*child == 0) {
    close(line[1]);
    become(spec, line[0]);
  }
  return true;
}

int tool_main(void) {
  static struct spec spec;
  pid_t child = 0;
  int status = 0;
  if (!started(&spec, &child)) {
    fprintf(stderr, "%s\n", failure());
    return 126;
  }
  // What it leaves running ends with it: it is the first process of its space.
  while (waitpid(child, &status, 0) != child) continue;
  return end_as(status);
}
