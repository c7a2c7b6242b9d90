// gpve-supervisor terminal PROGRAM [ARGUMENT...]
// Runs a program on a terminal of its own. Standard input carries frames: `d`, four bytes of length and so many keys;
// `r`, two bytes of columns and two of rows. Standard output is what the terminal shows. The end of standard input hangs up.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

static unsigned char keys[4096]; // read from standard input
static size_t at, held;          // what of them is not used yet
static unsigned char head[5];
static size_t head_length;
static size_t left; // bytes of the frame that are still to come

static bool write_all(int fd, const unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t done = write(fd, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes += done;
    count -= (size_t)done;
  }
  return true;
}

// Passes on what the terminal takes now. False when the frames make no sense.
static bool feed(int master) {
  while (at < held) {
    if (left > 0) {
      size_t count = held - at < left ? held - at : left;
      ssize_t done = write(master, keys + at, count);
      if (done < 0) return errno == EAGAIN || errno == EINTR;
      at += (size_t)done;
      left -= (size_t)done;
      continue;
    }
    head[head_length++] = keys[at++];
    if (head[0] != 'd' && head[0] != 'r') return false;
    if (head_length < sizeof head) continue;
    head_length = 0;
    if (head[0] == 'd') {
      left = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    } else {
      struct winsize size = {.ws_col = (unsigned short)(head[1] << 8 | head[2]), .ws_row = (unsigned short)(head[3] << 8 | head[4])};
      ioctl(master, TIOCSWINSZ, &size);
    }
  }
  return true;
}

static void child_main(const char *name, char **argv) {
  setsid();
  int slave = open(name, O_RDWR);
  if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0) _exit(127);
  for (int fd = 0; fd < 3; fd++) dup2(slave, fd);
  if (slave > 2) close(slave);
  signal(SIGPIPE, SIG_DFL);
  execve(argv[0], argv, environ);
  dprintf(2, "cannot run %s: %s\r\n", argv[0], strerror(errno));
  _exit(127);
}

static int carry(int master) {
  unsigned char shown[4096];
  for (;;) {
    bool full = at < held;
    struct pollfd watched[] = {{.fd = full ? -1 : 0, .events = POLLIN}, {.fd = master, .events = (short)(POLLIN | (full ? POLLOUT : 0))}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return 1;
    if (watched[1].revents & (POLLIN | POLLHUP)) {
      ssize_t count = read(master, shown, sizeof shown);
      // EIO: the program and everything it started have let go of the terminal.
      if (count <= 0 && errno != EAGAIN && errno != EINTR) return 0;
      if (count > 0 && !write_all(1, shown, (size_t)count)) return 0;
    }
    if (watched[0].revents & (POLLIN | POLLHUP)) {
      ssize_t count = read(0, keys, sizeof keys);
      if (count <= 0) return 0;
      at = 0;
      held = (size_t)count;
    }
    if (!feed(master)) return 1;
  }
}

int terminal_main(char **argv) {
  signal(SIGPIPE, SIG_IGN);
  char name[64];
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0 || ptsname_r(master, name, sizeof name) != 0) return 1;
  struct winsize size = {.ws_col = 80, .ws_row = 24};
  ioctl(master, TIOCSWINSZ, &size);
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) child_main(name, argv);
  int outcome = carry(master);
  close(master); // hangs up
  int status = 0;
  // A program that ignores the hang-up is not waited for: whoever started us wants to know that it is over.
  for (int tries = 0; tries < 20 && waitpid(child, &status, WNOHANG) == 0; tries++) usleep(50000);
  return outcome != 0 ? outcome : WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
