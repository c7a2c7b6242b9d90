// gpve-supervisor --data DIR --spec FILE
// The data directory is only there to be seen in the process list.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static struct spec spec;

static int quit(const char *why) {
  printf("failed %s\n", why);
  fflush(stdout);
  return 1;
}

static void child_main(int report, int log) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  // Ignored signals would stay ignored in the guest.
  signal(SIGHUP, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGALRM, SIG_DFL);
  setsid();
  umask(0022); // for the folders of its root
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if ((null >= 0 && dup2(null, 0) == 0) || fail_errno("cannot open /dev/null")) {
    dup2(log, 1);
    dup2(log, 2);
    // The report pipe goes out of the way of the guest's descriptors; it vanishes on a successful exec.
    int kept = fcntl(report, F_DUPFD_CLOEXEC, 900);
    if (kept >= 0) report = kept;
    if (sandbox_enter(&spec) && (umask(spec.as_host ? 0022 : 0077), descriptors_place())) {
      spec.args[spec.arg_count] = NULL;
      spec.env[spec.env_count] = NULL;
      execve(spec.program, spec.args, spec.env);
      fail_errno("cannot run %s", spec.program);
    }
  }
  dprintf(report, "%s", failure());
  _exit(127);
}

static volatile pid_t starting; // the child that has not run its program yet

// Whatever hangs (a file system, a device), the agent hears of it, and nothing half-started stays.
static void too_late(int number) {
  (void)number;
  static const char text[] = "failed the start took too long: a file or device does not answer\n";
  if (starting > 0) kill(starting, SIGKILL);
  if (write(1, text, sizeof text - 1) < 0) _exit(2);
  _exit(1);
}

static bool record_exit(pid_t child, uint64_t started, int status) {
  char text[256];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(text, sizeof text, "{\"pid\":%d,\"startTime\":\"%llu\",\"exitCode\":%d,\"signal\":%d,\"at\":%lld}\n", (int)child,
           (unsigned long long)started, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
           (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
  return whole_write(spec.exit_file, text);
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "terminal") == 0) return terminal_main(argv + 2);
  if (argc == 2 && strcmp(argv[1], "hold") == 0) return hold_main();
  if (argc == 2 && strcmp(argv[1], "tool") == 0) return tool_main();
  if (argc == 4 && strcmp(argv[1], "watchdog") == 0) return watchdog_main(argv[2], argv[3]);
  if (argc == 6 && strcmp(argv[1], "dial") == 0) return dial_main(argv[2], argv[3], argv[4], argv[5]);
  if (argc > 2 && strcmp(argv[1], "carry") == 0) return carry_main(argc - 2, argv + 2);
  char *spec_path = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--spec") == 0) spec_path = argv[i + 1];
    else if (strcmp(argv[i], "--data") != 0) return quit("usage: gpve-supervisor --data DIR --spec FILE");
  }
  if (spec_path == NULL) return quit("usage: gpve-supervisor --data DIR --spec FILE");
  syscall(SYS_close_range, 3u, ~0u, 0u);
  signal(SIGHUP, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  // The hard limit stays: it may be one that nobody here could raise again.
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
  setrlimit(RLIMIT_NOFILE, &files);

  signal(SIGALRM, too_late);
  alarm(START_SECONDS);
  if (!spec_read(spec_path, &spec)) return quit(failure());
  if (spec.exit_file == NULL || spec.state == NULL) return quit("the spec names no state or exit file");
  if (spec.user_namespace && !user_namespace_enter()) return quit(failure());
  // Whatever folder the agent was in must be free to go.
  if (chdir("/") != 0) return quit("cannot enter /");
  unlink(spec.exit_file);
  int log = spec.log == NULL ? open("/dev/null", O_WRONLY | O_CLOEXEC) : open(spec.log, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  if (log < 0) return quit("cannot open the guest's log");
  char self[32];
  snprintf(self, sizeof self, "%d", (int)getpid());
  for (int i = 0; i < spec.hold_count; i++)
    if (!write_text(spec.holds[i], self)) return quit(failure());
  if (!tap_open_all(&spec) || !sockets_open_all(&spec) || !files_open_all(&spec)) return quit(failure());
  int listener = spec.control == NULL ? -1 : socket_listen(spec.control);
  if (spec.control != NULL && listener < 0) return quit(failure());

  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigprocmask(SIG_BLOCK, &watched, NULL);
  int signals = signalfd(-1, &watched, SFD_CLOEXEC);
  int report[2];
  if (signals < 0 || pipe2(report, O_CLOEXEC) != 0) return quit("cannot make a pipe");

  if (spec.guard != NULL && !guard_allows(spec.guard)) return quit(failure());
  pid_t first = 0;
  pid_t child = spec.own_pids ? pid_space_fork(&spec, spec_path, &first) : fork();
  if (child < 0) {
    fail_errno("cannot fork");
    return quit(failure());
  }
  if (child == 0) {
    close(report[0]);
    child_main(report[1], log);
  }
  starting = child;
  close(report[1]);
  close(log);
  char why[600] = "";
  ssize_t got = read(report[0], why, sizeof why - 1);
  close(report[0]);
  if (got > 0) {
    waitpid(child, NULL, 0);
    return quit(why);
  }
  alarm(0);
  starting = 0;
  if (spec.guard != NULL && !guard_begin(spec.guard, child)) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return quit(failure());
  }
  // Only the guest holds its taps and files from here on: they end with it.
  descriptors_close();

  uint64_t started = process_start_time(child);
  char state[256];
  snprintf(state, sizeof state, "{\"supervisor\":%d,\"supervisorStartTime\":\"%llu\",\"pid\":%d,\"startTime\":\"%llu\"}\n", (int)getpid(),
           (unsigned long long)process_start_time(getpid()), (int)child, (unsigned long long)started);
  if (!whole_write(spec.state, state)) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return quit(failure());
  }
  printf("started %d %llu\n", (int)child, (unsigned long long)started);
  fflush(stdout);
  int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    if (null > 2) close(null);
  }
  control_serve(listener, signals, child);
  int status = 0;
  guard_end(); // the number is its own until it is reaped
  waitpid(child, &status, 0);
  record_exit(child, started, status);
  if (spec.control != NULL) unlink(spec.control);
  // It ends by itself, when everything in the guest's space has.
  for (int tries = 0; first > 0 && waitpid(first, NULL, WNOHANG) == 0 && tries < 20; tries++) usleep(50000);
  return 0;
}
