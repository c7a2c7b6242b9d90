// Numbers and names as the agent writes them: in range, or the start fails with the words that say which.
#include "supervisor.h"
#include <errno.h>
#include <linux/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool number_in(const char *text, long long least, long long most, const char *what, long long *out) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits)) return fail("%s is no number: \"%.64s\"", what, text);
  errno = 0;
  long long value = strtoll(text, NULL, 10);
  if (errno != 0 || value < least || value > most) return fail("%s must be from %lld to %lld, not %.64s", what, least, most, text);
  *out = value;
  return true;
}

bool int_in(const char *text, int least, int most, const char *what, int *out) {
  long long value;
  if (!number_in(text, least, most, what, &value)) return false;
  *out = (int)value;
  return true;
}

bool name_fits(const char *name, const char *what) {
  size_t length = strlen(name);
  if (length == 0 || length >= IFNAMSIZ || strpbrk(name, "/ :") != NULL) return fail("%s has a bad name: \"%.64s\"", what, name);
  return true;
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool readable_until(int fd, int64_t deadline_ms) {
  for (;;) {
    int64_t left = deadline_ms - now_ms();
    struct pollfd wait = {fd, POLLIN, 0};
    int ready = poll(&wait, 1, left < 0 ? 0 : (int)left);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}
