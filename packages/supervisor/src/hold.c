// gpve-supervisor hold: keeps the connection on descriptor 3 open until the other end closes it, reading nothing.
//
// A QEMU can break when a reader of its disks hangs up. The agent may die at any moment, and then its connections
// close: one that is held here does not, and the next agent ends it from QEMU's side.
#include "supervisor.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>

int hold_main(void) {
  signal(SIGHUP, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  struct pollfd line = {.fd = 3, .events = POLLRDHUP, .revents = 0};
  while (line.revents == 0)
    if (poll(&line, 1, -1) < 0 && errno != EINTR) return 1;
  return 0;
}
