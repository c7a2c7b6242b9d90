// gpve-supervisor watchdog DEVICE SECONDS
// Each byte on stdin keeps the machine from being reset for that long; "V" and the end of stdin let go of the device.
// An end without it leaves the device armed: whoever fed us is dead, and the machine follows.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int watchdog_main(const char *device, const char *text) {
  int seconds;
  if (!int_in(text, 1, 600, "seconds", &seconds)) return printf("failed %s\n", failure()), 1;
  int wanted = seconds;
  int fd = open(device, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return printf("failed cannot open %s: %s\n", device, strerror(errno)), 1;
  if (ioctl(fd, WDIOC_SETTIMEOUT, &seconds) != 0) ioctl(fd, WDIOC_GETTIMEOUT, &seconds);
  if (seconds > wanted) printf("warning %s resets after %d s, which is later than a lost lease passes on\n", device, seconds);
  else printf("armed %s for %d s\n", device, seconds);
  fflush(stdout);
  char words[64];
  bool goodbye = false;
  for (ssize_t got; (got = read(0, words, sizeof words)) != 0;) {
    if (got < 0) { if (errno == EINTR) continue; break; }
    goodbye = words[got - 1] == 'V';
    if (!goodbye && write(fd, ".", 1) != 1) return 1;
  }
  if (goodbye && write(fd, "V", 1) != 1) return 1;
  close(fd);
  return 0;
}
