// gpve-supervisor holds one guest process and outlives the agent that started it.
//
//   agent ──spawns──> supervisor ──forks──> guest (QEMU, swtpm, ...)
//                       │  opens taps and files and passes the descriptors
//                       │  puts the child into its cgroup, mounts, uid
//                       │  waits for it, writes how it ended, durably
//                       └─ answers on a control socket (bind mounts, descriptors for hotplug)
//
// It never reads guest data, never parses anything a guest wrote, and does nothing when idle.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  MAX_LIST = 2048,
  FIRST_FREE_FD = 3,
  LAST_FREE_FD = 511, // descriptors are moved out of the way above it
  MAX_QUEUES = 64,
  MAX_MTU = 65535,
};

// Nobody waits for ever: the agent gives up after 30 s, and must hear why before that.
enum { START_SECONDS = 25, REQUEST_SECONDS = 5, QMP_SECONDS = 25, MOUNT_SECONDS = 15 };

struct bind_mount {
  const char *source, *target, *mode; // mode: ro, rw
};

struct tap_device {
  const char *name, *bridge; // bridge "" = none
  int mtu, queues, first_fd;
};

// A unix socket that the guest serves but cannot replace: it gets the listening descriptor, not the path.
struct listening_socket {
  const char *path;
  int fd;
};

struct opened_file {
  const char *path, *mode; // ro, rw
  int fd;
};

struct spec {
  char *args[MAX_LIST + 1];
  char *env[MAX_LIST + 1];
  const char *program, *root, *control, *state, *exit_file, *log, *affinity, *chdir_to, *guard;
  const char *network; // file of a network namespace to enter
  const char *holds[16]; // cgroups of the supervisor itself: whoever stops the agent's cgroup must not stop guests
  const char *cgroups[16];
  struct bind_mount binds[MAX_LIST];
  const char *tmpfs[16], *tmpfs_size[16];
  const char *link_target[32], *link_path[32];
  const char *limit_name[16], *limit_value[16];
  struct tap_device taps[64];
  struct opened_file files[64];
  struct listening_socket sockets[64];
  int vhost_count, vhost_first_fd;
  gid_t groups[32];
  int arg_count, env_count, cgroup_count, bind_count, tmpfs_count, link_count, limit_count, tap_count, file_count, group_count, hold_count, socket_count;
  uid_t uid;
  gid_t gid;
  bool has_uid, has_gid, has_oom, own_network, own_pids, user_namespace, as_host;
  int oom;
  int parent; // of a tool: it ends with that process
};

// Fails with a message; the first failure wins. Everything returns false/-1 after calling it.
bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *failure(void);
void failure_clear(void);

bool spec_read(const char *path, struct spec *spec);

// Digits with an optional sign, in the range, and nothing else.
bool number_in(const char *text, long long least, long long most, const char *what, long long *out);
bool int_in(const char *text, int least, int most, const char *what, int *out);
bool name_fits(const char *name, const char *what); // of a network interface

// Milliseconds of a clock that nobody sets.
int64_t now_ms(void);
// True when there is something to read before the deadline.
bool readable_until(int fd, int64_t deadline_ms);

// Each opened descriptor is remembered with the number the guest expects it under.
bool tap_open_all(const struct spec *spec);
int tap_open(const char *name, const char *bridge, int mtu, bool multi_queue);
bool files_open_all(const struct spec *spec);
bool sockets_open_all(const struct spec *spec);
bool descriptor_keep(int fd, int wanted);
bool descriptors_place(void);
void descriptors_close(void);

// A user namespace in which we, without being root, may mount; before anything else is opened.
bool user_namespace_enter(void);

// pid-space.c: fork, with the child in a process space of its own. `named` is the word of our command line by which
// supervisors are found: the first process of the space is none.
pid_t pid_space_fork(const struct spec *spec, char *named, pid_t *first);

// In the child, after fork, before exec.
bool sandbox_enter(const struct spec *spec);
bool write_text(const char *path, const char *text);

bool whole_write(const char *path, const char *text);
uint64_t process_start_time(pid_t pid);

// Serves the control socket and waits for the child; returns when it has ended.
int socket_listen(const char *path);
struct sockaddr_un;
int socket_address(const char *path, struct sockaddr_un *address); // an open folder to close afterwards, or -1
void control_serve(int listener, int signals, pid_t child);
void mount_into(pid_t child, const char *source, const char *target, bool read_only, char *answer, size_t size);
void unmount_from(pid_t child, const char *target, char *answer, size_t size);
void qmp_pass(const char *socket_path, const int *fds, char *const *names, int count, const char *command, char *answer, size_t size);

// guard.c: the guest is killed when the deadline in that file passes; false = it is not guarded.
bool guard_allows(const char *path); // it has not passed yet
bool guard_begin(const char *path, pid_t child);
void guard_end(void);

// terminal.c: a program on a terminal of its own.
int terminal_main(char **argv);
int tool_main(void);
int hold_main(void);
int watchdog_main(const char *device, const char *seconds);
// dial.c: a line to a TCP port on one device's own network.
int dial_main(const char *device, const char *mark_text, const char *address, const char *port_text);
struct sockaddr_storage;
bool line_address(const char *text, int port, struct sockaddr_storage *out, unsigned *length);
bool line_option(int fd, int level, int name, int value, const char *what);
// For whoever carries bytes of others and needs nothing any more but its descriptors.
bool become_nobody(void);

// carry.c: bytes between a unix socket of a guest and a line to another node; carry-open.c: both of them.
int carry_main(int count, char **words);
int carry_on(int guest, int line);
void carry_unhurried(bool unhurried);
