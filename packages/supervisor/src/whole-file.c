#include "supervisor.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Whoever reads it finds the old or the new content. It is about processes: when this host has lost its power, it is about nobody,
// and nobody waits until a disk has it.
bool whole_write(const char *path, const char *text) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  int fd = open(temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return fail_errno("cannot write %s", temporary);
  ssize_t want = (ssize_t)strlen(text);
  bool ok = write(fd, text, (size_t)want) == want;
  close(fd);
  return (ok && rename(temporary, path) == 0) || fail_errno("cannot write %s", path);
}

// Field 22 of /proc/PID/stat: with the boot id it names one process for ever.
uint64_t process_start_time(pid_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = '\0';
  char *at = strrchr(text, ')');
  for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}
