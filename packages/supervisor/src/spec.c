// The spec: NUL-terminated strings, each directive followed by its fixed number of values. Written by the agent into a
// file of its own (mode 0600), so nothing needs quoting and no secret meets a command line.
#include "supervisor.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SPEC = 4 * 1024 * 1024 };

// Without a path: from stdin.
static char *slurp(const char *path, size_t *size) {
  int fd = path == NULL ? 0 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) { fail_errno("cannot open the spec %s", path); return NULL; }
  char *text = malloc(MAX_SPEC + 1);
  size_t have = 0;
  ssize_t got = 0;
  while (text != NULL && have < MAX_SPEC && (got = read(fd, text + have, MAX_SPEC - have)) > 0) have += (size_t)got;
  if (path != NULL) close(fd);
  if (text == NULL || got < 0 || have == MAX_SPEC) { fail("the spec cannot be read or is too large"); return NULL; }
  text[have] = '\0';
  *size = have;
  return text;
}

static bool id_number(const char *text, const char *what, unsigned *out) {
  long long value;
  if (!number_in(text, 0, 4294967294LL, what, &value)) return false; // the last one means nobody
  *out = (unsigned)value;
  return true;
}

static bool fd_number(const char *text, int count, int *out) {
  return int_in(text, FIRST_FREE_FD, LAST_FREE_FD - (count > 0 ? count - 1 : 0), "a descriptor", out);
}

static bool mode_word(const char *text) { return strcmp(text, "ro") == 0 || strcmp(text, "rw") == 0 || fail("neither ro nor rw: \"%.64s\"", text); }

#define ROOM(count, array) ((count) < (int)(sizeof(array) / sizeof((array)[0])) || fail("the spec has too many %s", name))

static bool apply(struct spec *spec, const char *name, char **values) {
  if (strcmp(name, "exec") == 0) { spec->program = values[0]; return true; }
  if (strcmp(name, "arg") == 0) return spec->arg_count < MAX_LIST ? (spec->args[spec->arg_count++] = values[0], true) : fail("too many arguments");
  if (strcmp(name, "env") == 0) return spec->env_count < MAX_LIST ? (spec->env[spec->env_count++] = values[0], true) : fail("too many variables");
  if (strcmp(name, "root") == 0) { spec->root = values[0]; return true; }
  if (strcmp(name, "chdir") == 0) { spec->chdir_to = values[0]; return true; }
  if (strcmp(name, "control") == 0) { spec->control = values[0]; return true; }
  if (strcmp(name, "state") == 0) { spec->state = values[0]; return true; }
  if (strcmp(name, "exit") == 0) { spec->exit_file = values[0]; return true; }
  if (strcmp(name, "log") == 0) { spec->log = values[0]; return true; }
  if (strcmp(name, "affinity") == 0) { spec->affinity = values[0]; return true; }
  if (strcmp(name, "guard") == 0) { spec->guard = values[0]; return true; }
  if (strcmp(name, "uid") == 0) return id_number(values[0], "a uid", &spec->uid) && (spec->has_uid = true);
  if (strcmp(name, "gid") == 0) return id_number(values[0], "a gid", &spec->gid) && (spec->has_gid = true);
  if (strcmp(name, "group") == 0) return ROOM(spec->group_count, spec->groups) && id_number(values[0], "a group", &spec->groups[spec->group_count++]);
  if (strcmp(name, "oom") == 0) { spec->has_oom = true; return int_in(values[0], -1000, 1000, "an OOM score", &spec->oom); }
  if (strcmp(name, "cgroup") == 0) return ROOM(spec->cgroup_count, spec->cgroups) && (spec->cgroups[spec->cgroup_count++] = values[0], true);
  if (strcmp(name, "network") == 0) {
    spec->own_network = strcmp(values[0], "own") == 0;
    if (values[0][0] == '/') spec->network = values[0];
    return spec->own_network || spec->network != NULL || fail("unknown network \"%s\"", values[0]);
  }
  if (strcmp(name, "pids") == 0) return (spec->own_pids = strcmp(values[0], "own") == 0) || fail("unknown process space \"%s\"", values[0]);
  if (strcmp(name, "userns") == 0) return (spec->user_namespace = strcmp(values[0], "own") == 0) || fail("unknown user namespace \"%s\"", values[0]);
  // It makes the confinement of others: files of theirs are read by other users, and their programs may have more rights than its.
  if (strcmp(name, "privileges") == 0) return (spec->as_host = strcmp(values[0], "host") == 0) || fail("unknown privileges \"%s\"", values[0]);
  if (strcmp(name, "parent") == 0) return int_in(values[0], 1, 4194304, "a process", &spec->parent);
  if (strcmp(name, "hold") == 0) return ROOM(spec->hold_count, spec->holds) && (spec->holds[spec->hold_count++] = values[0], true);
  if (strcmp(name, "limit") == 0) {
    if (!ROOM(spec->limit_count, spec->limit_name)) return false;
    spec->limit_name[spec->limit_count] = values[0];
    spec->limit_value[spec->limit_count++] = values[1];
    return true;
  }
  if (strcmp(name, "bind") == 0) {
    if (!ROOM(spec->bind_count, spec->binds) || !mode_word(values[2])) return false;
    spec->binds[spec->bind_count++] = (struct bind_mount){values[0], values[1], values[2]};
    return true;
  }
  if (strcmp(name, "tmpfs") == 0) {
    if (!ROOM(spec->tmpfs_count, spec->tmpfs)) return false;
    size_t digits = strspn(values[1], "0123456789");
    if (digits == 0 || digits > 12 || strlen(values[1] + digits) > 1 || strspn(values[1] + digits, "kmg") != strlen(values[1] + digits))
      return fail("a tmpfs has no size such as 64m: \"%.64s\"", values[1]);
    spec->tmpfs[spec->tmpfs_count] = values[0];
    spec->tmpfs_size[spec->tmpfs_count++] = values[1];
    return true;
  }
  if (strcmp(name, "symlink") == 0) {
    if (!ROOM(spec->link_count, spec->link_path)) return false;
    spec->link_target[spec->link_count] = values[0];
    spec->link_path[spec->link_count++] = values[1];
    return true;
  }
  if (strcmp(name, "tap") == 0) {
    if (!ROOM(spec->tap_count, spec->taps)) return false;
    struct tap_device *tap = &spec->taps[spec->tap_count++];
    tap->name = values[0];
    tap->bridge = values[1];
    if (!name_fits(tap->name, "a tap") || (tap->bridge[0] != '\0' && !name_fits(tap->bridge, "a bridge"))) return false;
    return int_in(values[2], 0, MAX_MTU, "an MTU", &tap->mtu) && int_in(values[3], 1, MAX_QUEUES, "a number of queues", &tap->queues) &&
           fd_number(values[4], tap->queues, &tap->first_fd);
  }
  if (strcmp(name, "vhost") == 0) return int_in(values[0], 0, LAST_FREE_FD, "a number of vhost descriptors", &spec->vhost_count) && fd_number(values[1], spec->vhost_count, &spec->vhost_first_fd);
  if (strcmp(name, "listen") == 0) {
    if (!ROOM(spec->socket_count, spec->sockets)) return false;
    spec->sockets[spec->socket_count].path = values[0];
    return fd_number(values[1], 1, &spec->sockets[spec->socket_count++].fd);
  }
  if (strcmp(name, "open") == 0) {
    if (!ROOM(spec->file_count, spec->files)) return false;
    struct opened_file *file = &spec->files[spec->file_count++];
    file->path = values[0];
    file->mode = values[1];
    return mode_word(file->mode) && fd_number(values[2], 1, &file->fd);
  }
  return fail("the spec has an unknown directive \"%s\": supervisor and agent are of different versions", name);
}

static int values_of(const char *name) {
  static const struct { const char *name; int values; } table[] = {
      {"bind", 3}, {"tap", 5}, {"open", 3}, {"tmpfs", 2}, {"symlink", 2}, {"limit", 2}, {"vhost", 2}, {"listen", 2}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(name, table[i].name) == 0) return table[i].values;
  return 1;
}

bool spec_read(const char *path, struct spec *spec) {
  size_t size;
  char *at = slurp(path, &size);
  if (at == NULL) return false;
  char *end = at + size;
  while (at < end) {
    char *name = at;
    char *values[5];
    at += strlen(at) + 1;
    int wanted = values_of(name);
    for (int i = 0; i < wanted; i++) {
      if (at >= end) return fail("the spec ends in the middle of \"%s\"", name);
      values[i] = at;
      at += strlen(at) + 1;
    }
    if (!apply(spec, name, values)) return false;
  }
  if (spec->program == NULL || spec->arg_count == 0) return fail("the spec names no program");
  return true;
}
