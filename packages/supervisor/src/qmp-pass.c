// Descriptors can reach QEMU only through a unix socket, and Node cannot send them. The supervisor speaks just enough
// QMP: greeting, capabilities, getfd with the descriptor attached, then one command line the agent wrote.
#include "supervisor.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static bool send_line(int socket_fd, const char *line, int passed) {
  struct iovec data = {(void *)(uintptr_t)line, strlen(line)};
  union { struct cmsghdr header; char space[CMSG_SPACE(sizeof(int))]; } control;
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  if (passed >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &passed, sizeof(int));
  }
  return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == (ssize_t)data.iov_len;
}

// Reads lines until one is an answer; events in between are not ours. A guest that dribbles does not hold us for ever.
static bool read_answer(int socket_fd, int64_t deadline, char *line, size_t size) {
  size_t have = 0;
  for (;;) {
    if (!readable_until(socket_fd, deadline)) return false;
    ssize_t got = recv(socket_fd, line + have, 1, 0);
    if (got <= 0) return false;
    if (line[have] != '\n') {
      if (have + 1 < size - 1) have++;
      continue;
    }
    line[have] = '\0';
    if (strstr(line, "\"return\"") != NULL || strstr(line, "\"error\"") != NULL || strstr(line, "\"QMP\"") != NULL) return true;
    have = 0;
  }
}

static bool step(int socket_fd, int64_t deadline, const char *line, int passed, char *answer, size_t size) {
  if (!send_line(socket_fd, line, passed) || !read_answer(socket_fd, deadline, answer, size)) {
    snprintf(answer, size, "error QEMU did not answer");
    return false;
  }
  return true;
}

void qmp_pass(const char *socket_path, const int *fds, char *const *names, int count, const char *command, char *answer, size_t size) {
  struct sockaddr_un address;
  int folder = socket_address(socket_path, &address);
  int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // One deadline for the whole conversation, which the agent waits out. It holds for connecting and sending too.
  int64_t deadline = now_ms() + QMP_SECONDS * 1000;
  struct timeval patience = {.tv_sec = 10};
  if (socket_fd >= 0) setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (socket_fd < 0 || connect(socket_fd, (struct sockaddr *)&address, sizeof address) != 0) {
    snprintf(answer, size, "error cannot reach %s: %s", socket_path, strerror(errno));
    if (socket_fd >= 0) close(socket_fd);
    if (folder >= 0) close(folder);
    return;
  }
  if (folder >= 0) close(folder);
  bool ok = read_answer(socket_fd, deadline, answer, size);
  if (!ok) snprintf(answer, size, "error QEMU did not answer");
  ok = ok && step(socket_fd, deadline, "{\"execute\":\"qmp_capabilities\"}\n", -1, answer, size);
  for (int i = 0; ok && i < count; i++) {
    char line[256];
    snprintf(line, sizeof line, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"%s\"}}\n", names[i]);
    ok = step(socket_fd, deadline, line, fds[i], answer, size) && strstr(answer, "\"error\"") == NULL;
  }
  if (ok) {
    char line[8192];
    if (snprintf(line, sizeof line, "%s\n", command) >= (int)sizeof line) snprintf(answer, size, "error the command is too long");
    else step(socket_fd, deadline, line, -1, answer, size);
  }
  close(socket_fd);
}
