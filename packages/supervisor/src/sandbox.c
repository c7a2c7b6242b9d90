// What the child does to itself before it becomes the guest: cgroup, limits, own mounts, own uid, nothing inherited.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno("cannot open %s", path);
  ssize_t want = (ssize_t)strlen(text);
  bool ok = write(fd, text, (size_t)want) == want || fail_errno("cannot write %s", path);
  close(fd);
  return ok;
}

static bool set_limit(const char *name, const char *value) {
  static const struct { const char *name; int resource; } table[] = {
      {"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}, {"core", RLIMIT_CORE}, {"fsize", RLIMIT_FSIZE},
      {"as", RLIMIT_AS}, {"cpu", RLIMIT_CPU}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (strcmp(name, table[i].name) != 0) continue;
    long long number = 0;
    if (strcmp(value, "unlimited") != 0 && !number_in(value, 0, INT64_MAX, name, &number)) return false;
    rlim_t amount = strcmp(value, "unlimited") == 0 ? RLIM_INFINITY : (rlim_t)number;
    struct rlimit limit;
    // As many descriptors as may be had; the other limits are promises.
    if (table[i].resource == RLIMIT_NOFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 && amount > limit.rlim_max) amount = limit.rlim_max;
    limit = (struct rlimit){amount, amount};
    return setrlimit((__rlimit_resource_t)table[i].resource, &limit) == 0 || fail_errno("cannot set limit %s", name);
  }
  return fail("unknown limit %s", name);
}

static bool set_affinity(const char *list) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const char *at = list; *at != '\0';) {
    char *end;
    long first = strtol(at, &end, 10), last = first;
    if (*at < '0' || *at > '9') return fail("bad CPU list %s", list);
    if (*end == '-') {
      if (end[1] < '0' || end[1] > '9') return fail("bad CPU list %s", list);
      last = strtol(end + 1, &end, 10);
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return fail("bad CPU list %s", list);
    for (long cpu = first; cpu <= last; cpu++) CPU_SET((size_t)cpu, &cpus);
    at = *end == ',' ? end + 1 : end;
    if (*end != ',' && *end != '\0') return fail("bad CPU list %s", list);
  }
  return sched_setaffinity(0, sizeof cpus, &cpus) == 0 || fail_errno("cannot use CPUs %s", list);
}

// Makes the folders above a path below the new root.
static bool make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    int made = mkdir(path, 0755);
    *slash = '/';
    if (made != 0 && errno != EEXIST) return fail_errno("cannot make %s", path);
  }
  return true;
}

// What the host's mount forbids stays forbidden; without root the kernel insists on it.
static unsigned long kept_flags(const char *path) {
  struct statvfs info;
  if (statvfs(path, &info) != 0) return 0;
  return ((info.f_flag & ST_RDONLY) != 0 ? MS_RDONLY : 0ul) | ((info.f_flag & ST_NODEV) != 0 ? MS_NODEV : 0ul) |
         ((info.f_flag & ST_NOEXEC) != 0 ? MS_NOEXEC : 0ul);
}

static bool bind_one(const char *root, const struct bind_mount *bind) {
  char target[4096];
  if (snprintf(target, sizeof target, "%s%s", root, bind->target) >= (int)sizeof target) return fail("path too long: %s", bind->target);
  bool writable = strcmp(bind->mode, "ro") != 0;
  struct stat source;
  char held[32];
  // The agent names files without links. One that is there now came where others may write, and would give away any file of
  // the host.
  int fd = open(bind->source, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 || fstat(fd, &source) != 0) return fail_errno("cannot see %s", bind->source);
  if (S_ISLNK(source.st_mode)) return fail("%s is a link where a file should be", bind->source);
  snprintf(held, sizeof held, "/proc/self/fd/%d", fd);
  if (!make_parents(target)) return false;
  if (S_ISDIR(source.st_mode)) {
    if (mkdir(target, 0755) != 0 && errno != EEXIST) return fail_errno("cannot make %s", target);
  } else {
    int place = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (place < 0) return fail_errno("cannot make %s", target);
    close(place);
  }
  if (mount(held, target, NULL, MS_BIND, NULL) != 0) return fail_errno("cannot bind %s", bind->source);
  close(fd);
  unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID | kept_flags(target) | (writable ? 0ul : MS_RDONLY);
  if (mount(NULL, target, NULL, flags, NULL) != 0) return fail_errno("cannot restrict %s", bind->target);
  return true;
}

static bool own_mounts(const struct spec *spec) {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) return fail_errno("cannot make a mount namespace");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return fail_errno("cannot make mounts private");
  if (mount("gpve-guest", spec->root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0) return fail_errno("cannot mount a root at %s", spec->root);
  for (int i = 0; i < spec->tmpfs_count; i++) {
    char target[4096], options[64];
    snprintf(target, sizeof target, "%s%s", spec->root, spec->tmpfs[i]);
    snprintf(options, sizeof options, "mode=1777,size=%s", spec->tmpfs_size[i]);
    if (!make_parents(target) || (mkdir(target, 01777) != 0 && errno != EEXIST)) return fail_errno("cannot make %s", target);
    if (mount("gpve-tmp", target, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) return fail_errno("cannot mount %s", target);
  }
  for (int i = 0; i < spec->bind_count; i++)
    if (!bind_one(spec->root, &spec->binds[i])) return false;
  for (int i = 0; i < spec->link_count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", spec->root, spec->link_path[i]);
    if (!make_parents(path)) return false;
    if (symlink(spec->link_target[i], path) != 0 && errno != EEXIST) return fail_errno("cannot link %s", path);
  }
  if (chdir(spec->root) != 0) return fail_errno("cannot enter %s", spec->root);
  if (syscall(SYS_pivot_root, ".", ".") != 0) return fail_errno("cannot pivot into %s", spec->root);
  if (umount2(".", MNT_DETACH) != 0) return fail_errno("cannot leave the old root");
  return chdir("/") == 0 || fail_errno("cannot enter the new root");
}

bool user_namespace_enter(void) {
  unsigned uid = getuid(), gid = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return fail_errno("cannot make a user namespace");
  char map[64];
  // We stay who we are: files are ours inside as outside.
  snprintf(map, sizeof map, "%u %u 1", uid, uid);
  if (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", map)) return false;
  snprintf(map, sizeof map, "%u %u 1", gid, gid);
  if (!write_text("/proc/self/gid_map", map)) return false;
  // What the host mounts later is seen here too.
  return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 || fail_errno("cannot follow the host's mounts");
}

static bool enter_network(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno("cannot open the network namespace %s", path);
  bool ok = setns(fd, CLONE_NEWNET) == 0 || fail_errno("cannot enter the network namespace %s", path);
  close(fd);
  return ok;
}

bool sandbox_enter(const struct spec *spec) {
  for (int i = 0; i < spec->cgroup_count; i++)
    if (!write_text(spec->cgroups[i], "0")) return false; // whoever writes it
  if (spec->has_oom) {
    char text[16];
    snprintf(text, sizeof text, "%d", spec->oom);
    if (!write_text("/proc/self/oom_score_adj", text)) return false;
  }
  for (int i = 0; i < spec->limit_count; i++)
    if (!set_limit(spec->limit_name[i], spec->limit_value[i])) return false;
  if (spec->affinity != NULL && !set_affinity(spec->affinity)) return false;
  // Its taps are open already and unix sockets are files: such a guest needs no network of the host's.
  if (spec->network != NULL && !enter_network(spec->network)) return false;
  if (spec->own_network && unshare(CLONE_NEWNET) != 0) return fail_errno("cannot make a network namespace");
  if (spec->root != NULL && !own_mounts(spec)) return false;
  if (spec->chdir_to != NULL && chdir(spec->chdir_to) != 0) return fail_errno("cannot enter %s", spec->chdir_to);
  if (spec->has_gid) {
    if (setgroups((size_t)spec->group_count, spec->groups) != 0) return fail_errno("cannot set groups");
    if (setresgid(spec->gid, spec->gid, spec->gid) != 0) return fail_errno("cannot become group %u", spec->gid);
  }
  if (spec->has_uid && setresuid(spec->uid, spec->uid, spec->uid) != 0) return fail_errno("cannot become user %u", spec->uid);
  if (spec->as_host) return true;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("cannot give up new privileges");
  return true;
}
