#include "supervisor.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char message[512];

static void keep(const char *format, va_list args, int code) {
  if (message[0] != '\0') return;
  int used = vsnprintf(message, sizeof message, format, args);
  if (code != 0 && used > 0 && (size_t)used < sizeof message)
    snprintf(message + used, sizeof message - (size_t)used, ": %s", strerror(code));
}

bool fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  keep(format, args, 0);
  va_end(args);
  return false;
}

bool fail_errno(const char *format, ...) {
  int code = errno;
  va_list args;
  va_start(args, format);
  keep(format, args, code);
  va_end(args);
  return false;
}

const char *failure(void) { return message; }

void failure_clear(void) { message[0] = '\0'; }
