// gpve-supervisor dial DEVICE MARK ADDRESS PORT
// A line to a TCP port on the network of one device: nothing of it is routed on elsewhere, and every packet has the mark by
// which the caller's rules know it. Says `open`, or `failed` and why, in a line; then standard input goes there, and what
// comes from there to standard output, until either side ends.
#include "supervisor.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NOBODY = 65534 };
enum { CONNECT_MS = 8000, LAST_WORDS_MS = 5000, UNHEARD_MS = 30000 };

struct pipe_end {
  unsigned char bytes[32768];
  size_t at, held;
  bool over; // nothing more comes
};

static struct pipe_end up, down;

bool line_address(const char *text, int port, struct sockaddr_storage *out, socklen_t *length) {
  memset(out, 0, sizeof *out);
  struct sockaddr_in *four = (struct sockaddr_in *)out;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
    *length = sizeof *four;
    return true;
  }
  if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1) return fail("\"%.64s\" is no address", text);
  six->sin6_family = AF_INET6;
  six->sin6_port = htons((uint16_t)port);
  *length = sizeof *six;
  return true;
}

bool line_option(int fd, int level, int name, int value, const char *what) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0 || fail_errno("cannot set %s", what);
}

static int open_line(const char *device, int mark, const struct sockaddr_storage *there, socklen_t length) {
  int fd = socket(there->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    fail_errno("cannot make a socket");
    return -1;
  }
  bool bound = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device) + 1) == 0;
  if (!bound) {
    fail_errno("cannot bind to %s", device);
    return -1;
  }
  if (!line_option(fd, SOL_SOCKET, SO_MARK, mark, "the mark") || !line_option(fd, SOL_SOCKET, SO_DONTROUTE, 1, "on-link only") ||
      !line_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "no delay") || !line_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "keep-alive") ||
      !line_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30, "keep-alive") || !line_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNHEARD_MS, "the time-out"))
    return -1;
  if (connect(fd, (const struct sockaddr *)there, length) != 0 && errno != EINPROGRESS) {
    fail_errno("connect");
    return -1;
  }
  struct pollfd wait[] = {{.fd = fd, .events = POLLOUT}, {.fd = 0, .events = 0}};
  int64_t deadline = now_ms() + CONNECT_MS;
  for (;;) {
    int64_t left = deadline - now_ms();
    int ready = poll(wait, 2, left < 0 ? 0 : (int)left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) fail("connect: nothing answered within %d s", CONNECT_MS / 1000);
    else if (ready > 0 && wait[0].revents == 0) fail("connect: hung up");
    if (ready <= 0 || wait[0].revents == 0) return -1;
    break;
  }
  int outcome = 0;
  socklen_t size = sizeof outcome;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &outcome, &size) != 0 || outcome != 0) {
    errno = outcome == 0 ? errno : outcome;
    fail_errno("connect");
    return -1;
  }
  return fd;
}

// False when that side is broken.
static bool take(int fd, struct pipe_end *end) {
  ssize_t count = read(fd, end->bytes, sizeof end->bytes);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  end->at = 0;
  end->held = (size_t)count;
  end->over = count == 0;
  return true;
}

static bool give(int fd, struct pipe_end *end) {
  ssize_t count = write(fd, end->bytes + end->at, end->held - end->at);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  end->at += (size_t)count;
  return true;
}

static int carry(int line) {
  bool told = false; // that nothing more comes from us
  int64_t deadline = 0;
  for (;;) {
    bool up_full = up.at < up.held, down_full = down.at < down.held;
    if (down.over && !down_full) return 0;
    if (up.over && !up_full && !told) {
      shutdown(line, SHUT_WR);
      told = true;
      deadline = now_ms() + LAST_WORDS_MS;
    }
    struct pollfd watched[] = {
        {.fd = up.over || up_full ? -1 : 0, .events = POLLIN},
        {.fd = line, .events = (short)((down_full ? 0 : POLLIN) | (up_full ? POLLOUT : 0))},
        {.fd = 1, .events = (short)(down_full ? POLLOUT : 0)},
    };
    int64_t left = told ? deadline - now_ms() : -1;
    if (told && left <= 0) return 0;
    int ready = poll(watched, 3, (int)left);
    if (ready < 0 && errno != EINTR) return 1;
    if (ready <= 0) continue;
    if (watched[2].revents & (POLLERR | POLLHUP | POLLNVAL)) return 0;
    if ((watched[0].revents & (POLLIN | POLLHUP)) && !take(0, &up)) return 0;
    if (!down_full && (watched[1].revents & (POLLIN | POLLHUP | POLLERR)) && !take(line, &down)) return 0;
    if (up_full && (watched[1].revents & (POLLOUT | POLLERR)) && !give(line, &up)) return 0;
    if (down_full && (watched[2].revents & POLLOUT) && !give(1, &down)) return 0;
  }
}

// Whoever carries what a guest says needs nothing any more but two descriptors and a socket.
bool become_nobody(void) {
  bool dropped = geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
  if (!dropped || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return fail_errno("cannot give up privileges");
  return true;
}

int dial_main(const char *device, const char *mark_text, const char *address, const char *port_text) {
  signal(SIGPIPE, SIG_IGN);
  struct sockaddr_storage there;
  socklen_t length = 0;
  long long mark = 0;
  int port = 0, line = -1;
  if (name_fits(device, "the device") && number_in(mark_text, 1, UINT32_MAX, "the mark", &mark) &&
      int_in(port_text, 1, 65535, "the port", &port) && line_address(address, port, &there, &length))
    line = open_line(device, (int)(uint32_t)mark, &there, length);
  if (line < 0 || !become_nobody()) {
    printf("failed %s\n", failure());
    fflush(stdout);
    return 1;
  }
  printf("open\n");
  fflush(stdout);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  fcntl(1, F_SETFL, fcntl(1, F_GETFL) | O_NONBLOCK);
  return carry(line);
}
