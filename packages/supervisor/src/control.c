// The control socket: one request per connection, NUL-terminated strings, ended by shutdown of the writing side.
//   bind SRC DST ro|rw          -> ok | error ...
//   unbind DST                  -> ok | error ...
//   tap NAME BRIDGE MTU QUEUES VHOST QMP-SOCKET COMMAND  -> QEMU's answer | error ...
//     descriptors are named NAME-0.. and, with VHOST 1, NAME-vhost-0..
//   kill SIGNAL                 -> ok | error ...   (never the wrong process: the guest is our child until reaped)
//   guard FILE                  -> ok | error ...   (it ends when the deadline in FILE passes)
//   unguard                     -> ok
//   ping                        -> ok PID
#include "supervisor.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// A socket's path has room for 107 bytes; a longer one is named through its open folder.
int socket_address(const char *path, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) < sizeof address->sun_path) {
    strcpy(address->sun_path, path);
    return -1;
  }
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *slash = '\0';
  int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 && slash != NULL) snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.64s", fd, slash + 1);
  return fd;
}

// Only we, or those we hand the descriptor to, can make or replace it: its folder is the agent's.
int socket_listen(const char *path) {
  struct sockaddr_un address;
  int folder = socket_address(path, &address);
  unlink(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  mode_t before = umask(0177);
  bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0;
  umask(before);
  if (folder >= 0) close(folder);
  if (!ok) { fail_errno("cannot listen on %s", path); return -1; }
  return fd;
}

static void plug_tap(char **values, char *answer, size_t size) {
  int queues, mtu, fds[2 * MAX_QUEUES], count = 0;
  char names[2 * MAX_QUEUES][64];
  char *pointers[2 * MAX_QUEUES];
  bool vhost = strcmp(values[5], "1") == 0;
  bool ok = name_fits(values[1], "a tap") && (values[2][0] == '\0' || name_fits(values[2], "a bridge")) &&
            int_in(values[3], 0, MAX_MTU, "an MTU", &mtu) && int_in(values[4], 1, MAX_QUEUES, "a number of queues", &queues);
  if (!ok) { snprintf(answer, size, "error %s", failure()); return; }
  for (int i = 0; i < queues; i++) {
    int fd = tap_open(values[1], i == 0 ? values[2] : NULL, mtu, queues > 1);
    if (fd < 0) { snprintf(answer, size, "error %s", failure()); goto out; }
    snprintf(names[count], sizeof names[0], "%s-%d", values[1], i);
    fds[count++] = fd;
  }
  for (int i = 0; vhost && i < queues; i++) {
    int fd = open("/dev/vhost-net", O_RDWR | O_CLOEXEC);
    if (fd < 0) { snprintf(answer, size, "error cannot open /dev/vhost-net"); goto out; }
    snprintf(names[count], sizeof names[0], "%s-vhost-%d", values[1], i);
    fds[count++] = fd;
  }
  for (int i = 0; i < count; i++) pointers[i] = names[i];
  qmp_pass(values[6], fds, pointers, count, values[7], answer, size);
out:
  for (int i = 0; i < count; i++) close(fds[i]);
}

// The guest is our child until it is reaped: the number is its own.
static void send_signal(pid_t child, const char *text, char *answer, size_t size) {
  int number;
  if (!int_in(text, 1, 64, "a signal", &number)) snprintf(answer, size, "error %s", failure());
  else snprintf(answer, size, kill(child, number) == 0 ? "ok" : "error cannot signal the guest");
}

static void answer_one(int client, pid_t child) {
  static char request[64 * 1024];
  char answer[16 * 1024] = "error not understood";
  char *values[8] = {0};
  int count = 0;
  size_t have = 0;
  failure_clear();
  struct timeval patience = {.tv_sec = REQUEST_SECONDS};
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  // One deadline for all of it: who dribbles does not keep the others waiting.
  int64_t deadline = now_ms() + REQUEST_SECONDS * 1000;
  for (;;) {
    if (!readable_until(client, deadline)) return;
    ssize_t got = read(client, request + have, sizeof request - 1 - have);
    if (got <= 0) break;
    have += (size_t)got;
    if (have >= sizeof request - 1) return;
  }
  request[have] = '\0';
  for (char *at = request; at < request + have && count < 8; at += strlen(at) + 1) values[count++] = at;
  if (count == 1 && strcmp(values[0], "ping") == 0) snprintf(answer, sizeof answer, "ok %d", (int)child);
  else if (count == 4 && strcmp(values[0], "bind") == 0) mount_into(child, values[1], values[2], strcmp(values[3], "rw") != 0, answer, sizeof answer);
  else if (count == 2 && strcmp(values[0], "unbind") == 0) unmount_from(child, values[1], answer, sizeof answer);
  else if (count == 2 && strcmp(values[0], "kill") == 0) send_signal(child, values[1], answer, sizeof answer);
  else if (count == 2 && strcmp(values[0], "guard") == 0) {
    if (guard_begin(values[1], child)) snprintf(answer, sizeof answer, "ok");
    else snprintf(answer, sizeof answer, "error %s", failure());
  } else if (count == 1 && strcmp(values[0], "unguard") == 0) {
    guard_end();
    snprintf(answer, sizeof answer, "ok");
  }
  else if (count == 8 && strcmp(values[0], "tap") == 0) plug_tap(values, answer, sizeof answer);
  if (write(client, answer, strlen(answer)) < 0) return;
}

void control_serve(int listener, int signals, pid_t child) {
  for (;;) {
    struct pollfd waits[2] = {{signals, POLLIN, 0}, {listener, POLLIN, 0}};
    if (poll(waits, listener < 0 ? 1 : 2, -1) < 0) continue;
    if (waits[0].revents != 0) {
      struct signalfd_siginfo info;
      if (read(signals, &info, sizeof info) < 0) continue;
      siginfo_t ended = {0};
      // Look without reaping: the caller takes the status, helpers of ours are reaped where they are made.
      if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child) return;
    }
    if (listener >= 0 && waits[1].revents != 0) {
      int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (client < 0) continue;
      answer_one(client, child);
      close(client);
    }
  }
}
