// gpve-supervisor carry dial ADDRESS PORT PATH
// gpve-supervisor carry listen ADDRESS PEER PATH UID
// Two of them carry the RAM of a guest between two nodes, for one move. Both are told the same secret in the first line of
// standard input, 64 hexadecimal digits; whoever dials says it first. Who listens does so at a free port of those that Proxmox VE
// has for moves (`port N`), for one connection: of that address and with that secret. Others are hung up on, and who is not
// there in time is not waited for. It is no key: what goes over the line the QEMUs at either end encrypt.
// dial: `open` when the other end has taken it; then the guest connects to PATH, once. listen: connects to PATH, which must be
// served by UID. When something fails: `failed` and why.
#include "supervisor.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SECRET = 64, MOST_UNPROVEN = 8, URGENT = -5 };
enum { TOLD_MS = 10000, DIAL_MS = 5000, PROVEN_MS = 3000, LISTEN_MS = 30000, UNHEARD_MS = 60000 };
// A line within a site has no need for more, and a guest that stands still waits for all that is under way.
enum { UNSENT_BYTES = 256 * 1024, WINDOW_BYTES = 1024 * 1024 };

enum { FIRST_PORT = 60000, PORTS = 50 };

static const char TAKEN = '+';
static char secret[SECRET];

static int quit(void) {
  printf("failed %s\n", failure());
  fflush(stdout);
  return 1;
}

static bool told_secret(void) {
  int64_t deadline = now_ms() + TOLD_MS;
  char at;
  for (int i = 0; i <= SECRET; i++) {
    if (!readable_until(0, deadline) || read(0, &at, 1) != 1) return fail("no secret was told");
    if (i == SECRET ? at != '\n' : strchr("0123456789abcdef", at) == NULL || at == '\0') return fail("what was told is no secret");
    if (i < SECRET) secret[i] = at;
  }
  return true;
}

static bool same_secret(const char *said) {
  unsigned char different = 0;
  for (int i = 0; i < SECRET; i++) different |= (unsigned char)(said[i] ^ secret[i]);
  return different == 0;
}

// The other end may lose its power without a word.
static bool prepare(int fd) {
  return line_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "no delay") && line_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "keep-alive") &&
         line_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10, "keep-alive") &&
         line_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10, "keep-alive") && line_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3, "keep-alive") &&
         line_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNHEARD_MS, "the time-out") &&
         line_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES, "how much waits") &&
         line_option(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, WINDOW_BYTES, "the window");
}

// Standard input may end meanwhile: then nobody wants it any more. False = not in time, or not wanted.
static bool ready_until(int fd, short events, int64_t deadline, const char *what) {
  for (;;) {
    struct pollfd wait[] = {{.fd = fd, .events = events}, {.fd = 0, .events = 0}};
    int64_t left = deadline - now_ms();
    int ready = poll(wait, 2, left < 0 ? 0 : (int)left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return fail("%s: nothing in time", what);
    if (wait[0].revents != 0) return true;
    return fail("%s: hung up", what);
  }
}

static int dialed(const char *address, const char *port_text) {
  struct sockaddr_storage there;
  socklen_t length = 0;
  int port = 0, outcome = 0;
  socklen_t size = sizeof outcome;
  if (!int_in(port_text, 1, 65535, "the port", &port) || !line_address(address, port, &there, &length)) return -1;
  int fd = socket(there.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int64_t deadline = now_ms() + DIAL_MS;
  if (fd < 0 || (connect(fd, (struct sockaddr *)&there, length) != 0 && errno != EINPROGRESS)) {
    fail_errno("connect");
    return -1;
  }
  if (!ready_until(fd, POLLOUT, deadline, "connect")) return -1;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &outcome, &size) != 0 || outcome != 0) {
    errno = outcome == 0 ? errno : outcome;
    fail_errno("connect");
    return -1;
  }
  char answer = 0;
  if (!prepare(fd) || send(fd, secret, SECRET, MSG_NOSIGNAL) != SECRET) {
    fail_errno("the line broke");
    return -1;
  }
  if (!ready_until(fd, POLLIN, deadline, "the answer")) return -1;
  if (read(fd, &answer, 1) == 1 && answer == TAKEN) return fd;
  fail("the other end hung up");
  return -1;
}

struct unproven {
  int fd;
  size_t heard;
  int64_t deadline;
  char said[SECRET];
};

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
  if (a->ss_family != b->ss_family) return false;
  if (a->ss_family == AF_INET) return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
  return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void let_in(int listener, const struct sockaddr_storage *peer, struct unproven *all) {
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  int fd = accept4(listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  for (int i = 0; same_host(&from, peer) && i < MOST_UNPROVEN; i++) {
    if (all[i].fd >= 0) continue;
    all[i] = (struct unproven){.fd = fd, .deadline = now_ms() + PROVEN_MS};
    return;
  }
  close(fd);
}

// True when it has said all of the secret. Never reads on: what comes after it is for the guest.
static bool proves(struct unproven *one, bool readable) {
  if (readable) {
    ssize_t got = read(one->fd, one->said + one->heard, SECRET - one->heard);
    if (got > 0) one->heard += (size_t)got;
    if (one->heard == SECRET && same_secret(one->said)) return true;
    if (got > 0 && one->heard < SECRET) return false;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  } else if (now_ms() < one->deadline) return false;
  close(one->fd);
  one->fd = -1;
  return false;
}

static int accepted(int listener, const struct sockaddr_storage *peer) {
  struct unproven all[MOST_UNPROVEN];
  for (int i = 0; i < MOST_UNPROVEN; i++) all[i] = (struct unproven){.fd = -1};
  int64_t deadline = now_ms() + LISTEN_MS;
  while (now_ms() < deadline) {
    struct pollfd watched[MOST_UNPROVEN + 2] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = 0}};
    for (int i = 0; i < MOST_UNPROVEN; i++) watched[i + 2] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
    if (poll(watched, MOST_UNPROVEN + 2, 500) < 0) continue;
    if (watched[1].revents != 0) {
      fail("hung up");
      return -1;
    }
    for (int i = 0; i < MOST_UNPROVEN; i++) {
      if (all[i].fd < 0 || !proves(&all[i], watched[i + 2].revents != 0)) continue;
      for (int other = 0; other < MOST_UNPROVEN; other++)
        if (other != i && all[other].fd >= 0) close(all[other].fd);
      return all[i].fd;
    }
    if (watched[0].revents != 0) let_in(listener, peer, all);
  }
  fail("nobody came");
  return -1;
}

static int listening_at(const char *address, int port) {
  struct sockaddr_storage here;
  socklen_t length = 0;
  if (!line_address(address, port, &here, &length)) return -1;
  int fd = socket(here.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // One that was here a minute ago keeps nobody from it.
  if (fd >= 0 && line_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "the port") && bind(fd, (struct sockaddr *)&here, length) == 0 &&
      listen(fd, MOST_UNPROVEN) == 0)
    return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static int listening(const char *address) {
  int first = (int)(now_ms() % PORTS);
  for (int i = 0; i < PORTS; i++) {
    int port = FIRST_PORT + (first + i) % PORTS;
    int fd = listening_at(address, port);
    if (fd < 0 && errno == EADDRINUSE) continue;
    if (fd < 0) break;
    printf("port %d\n", port);
    fflush(stdout);
    return fd;
  }
  fail_errno("cannot listen on %.64s, ports %d to %d", address, FIRST_PORT, FIRST_PORT + PORTS - 1);
  return -1;
}

// The folder is the guest's: whoever is led elsewhere by it speaks to nobody.
static int served(const char *path, long long uid) {
  struct sockaddr_un address;
  int folder = socket_address(path, &address);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool is_there = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (folder >= 0) close(folder);
  struct ucred server = {0};
  socklen_t size = sizeof server;
  if (!is_there || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) {
    fail_errno("cannot reach the guest");
    return -1;
  }
  if (server.uid == (uid_t)uid) return fd;
  fail("user %u serves the guest's socket", (unsigned)server.uid);
  return -1;
}

// For as long as somebody holds the line: disks may be mirrored before that, for hours.
static bool comes(int fd) {
  for (;;) {
    struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = 0}};
    int ready = poll(wait, 2, -1);
    if (ready < 0 && errno == EINTR) continue;
    return (ready > 0 && wait[0].revents != 0) || fail("hung up");
  }
}

static int listen_main(char **words) {
  struct sockaddr_storage peer;
  socklen_t length = 0;
  long long uid = 0;
  if (!number_in(words[3], 0, UINT32_MAX, "a user", &uid) || !line_address(words[1], 0, &peer, &length)) return quit();
  int listener = listening(words[0]);
  int line = listener < 0 ? -1 : accepted(listener, &peer);
  if (line < 0) return quit();
  close(listener);
  if (!prepare(line) || send(line, &TAKEN, 1, MSG_NOSIGNAL) != 1) return quit();
  // Not before somebody speaks: QEMU does nothing else while it waits for the first words of TLS.
  int guest = comes(line) ? served(words[2], uid) : -1;
  if (guest < 0 || !become_nobody()) return quit();
  return carry_on(guest, line);
}

static int dial_out_main(char **words) {
  int listener = socket_listen(words[2]);
  int line = listener < 0 ? -1 : dialed(words[0], words[1]);
  if (line < 0 || !become_nobody()) return quit();
  printf("open\n");
  fflush(stdout);
  if (!comes(listener)) return quit();
  int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (guest < 0) return fail_errno("the guest"), quit();
  close(listener);
  return carry_on(guest, line);
}

int carry_main(int count, char **words) {
  signal(SIGPIPE, SIG_IGN);
  // A guest stands still for it in the end. Without the right to it nothing changes.
  if (getpriority(PRIO_PROCESS, 0) > URGENT && setpriority(PRIO_PROCESS, 0, URGENT) != 0) failure_clear();
  carry_unhurried(true);
  bool listens = count == 5 && strcmp(words[0], "listen") == 0;
  if (!listens && !(count == 4 && strcmp(words[0], "dial") == 0)) return fail("carry dial ADDRESS PORT PATH | carry listen ADDRESS PEER PATH UID"), quit();
  if (!told_secret()) return quit();
  return listens ? listen_main(words + 1) : dial_out_main(words + 1);
}
