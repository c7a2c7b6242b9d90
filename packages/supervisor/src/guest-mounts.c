// Mounts that appear in or leave a running guest's namespace: hotplug of its own new disk, nothing else.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif

static void make_target(const char *target, bool folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s", target);
  for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
  }
  if (folder) mkdir(target, 0755);
  else {
    int fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
  }
}

// setns on a mount namespace needs a single-threaded process with its own fs state: a short-lived fork does it.
static void in_namespace(pid_t child, int tree, const char *target, bool folder, bool read_only, char *answer, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)child);
  int result[2];
  if (pipe2(result, O_CLOEXEC) != 0) { snprintf(answer, size, "error no pipe"); return; }
  pid_t helper = fork();
  if (helper == 0) {
    umask(0022);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    const char *error = NULL;
    if (space < 0 || setns(space, CLONE_NEWNS) != 0) error = "cannot enter the guest's namespace";
    else if (tree >= 0) {
      make_target(target, folder);
      if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) != 0) error = "cannot mount";
      else {
        unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID | (read_only ? MS_RDONLY : 0ul);
        if (mount(NULL, target, NULL, flags, NULL) != 0) error = "cannot restrict the mount";
      }
    } else {
      // A file that was given twice, first to read and then to write, is mounted twice.
      while (umount2(target, MNT_DETACH) == 0) continue;
      if (errno != EINVAL && errno != ENOENT) error = "cannot unmount";
    }
    // The empty file or folder the mount lay on; a guest must not find an empty disk in its place.
    if (tree < 0 && error == NULL && unlink(target) != 0) rmdir(target);
    if (error != NULL) dprintf(result[1], "error %s: %s", error, strerror(errno));
    _exit(0);
  }
  close(result[1]);
  // The end of the pipe is the end of the helper. A file system that hangs must not hang us.
  bool in_time = helper > 0 && readable_until(result[0], now_ms() + MOUNT_SECONDS * 1000);
  ssize_t got = in_time ? read(result[0], answer, size - 1) : -1;
  close(result[0]);
  if (helper > 0 && !in_time) kill(helper, SIGKILL);
  // One that hangs in the kernel is reaped by whoever inherits it.
  for (int tries = 0; helper > 0 && waitpid(helper, NULL, in_time ? 0 : WNOHANG) == 0 && tries < 20; tries++) usleep(50000);
  if (helper < 0) snprintf(answer, size, "error cannot fork");
  else if (!in_time) snprintf(answer, size, "error %s was not mounted or unmounted in %d s", target, MOUNT_SECONDS);
  else if (got > 0) answer[got] = '\0';
  else snprintf(answer, size, "ok");
}

void mount_into(pid_t child, const char *source, const char *target, bool read_only, char *answer, size_t size) {
  struct stat info;
  // No link: as when it starts, see sandbox.c.
  int tree = (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | O_CLOEXEC | AT_SYMLINK_NOFOLLOW);
  if (tree < 0 || fstat(tree, &info) != 0) {
    snprintf(answer, size, "error cannot see %s: %s", source, strerror(errno));
    if (tree >= 0) close(tree);
    return;
  }
  if (S_ISLNK(info.st_mode)) {
    snprintf(answer, size, "error %s is a link where a file should be", source);
    close(tree);
    return;
  }
  in_namespace(child, tree, target, S_ISDIR(info.st_mode), read_only, answer, size);
  close(tree);
}

void unmount_from(pid_t child, const char *target, char *answer, size_t size) {
  in_namespace(child, -1, target, false, false, answer, size);
}
