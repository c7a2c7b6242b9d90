#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>

// Wanted numbers are below 512, and these find room between there and the 1024 that a host may have as its hard limit.
static struct { int fd, wanted; } kept[480];
static int kept_count;

bool descriptor_keep(int fd, int wanted) {
  if (kept_count == (int)(sizeof kept / sizeof kept[0])) return fail("too many descriptors");
  kept[kept_count].fd = fd;
  kept[kept_count++].wanted = wanted;
  return true;
}

// Called in the child. First out of the way of every wanted number, then into place.
bool descriptors_place(void) {
  for (int i = 0; i < kept_count; i++) {
    int moved = fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 512);
    if (moved < 0) return fail_errno("cannot move descriptor %d", kept[i].fd);
    kept[i].fd = moved;
  }
  for (int i = 0; i < kept_count; i++)
    if (dup2(kept[i].fd, kept[i].wanted) < 0) return fail_errno("cannot place descriptor %d", kept[i].wanted);
  return true;
}

void descriptors_close(void) {
  for (int i = 0; i < kept_count; i++) close(kept[i].fd);
  kept_count = 0;
}

static bool set_interface(const char *name, const char *bridge, int mtu) {
  int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0) return fail_errno("cannot open a control socket");
  struct ifreq request = {0};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  bool ok = true;
  if (mtu > 0) {
    request.ifr_mtu = mtu;
    if (ioctl(control, SIOCSIFMTU, &request) != 0) ok = fail_errno("cannot set MTU %d on %s", mtu, name);
  }
  if (ok && bridge[0] != '\0') {
    struct ifreq member = {0};
    strncpy(member.ifr_name, bridge, IFNAMSIZ - 1);
    struct ifreq lookup = request;
    if (ioctl(control, SIOCGIFINDEX, &lookup) != 0) ok = fail_errno("cannot find %s", name);
    else {
      member.ifr_ifindex = lookup.ifr_ifindex;
      if (ioctl(control, SIOCBRADDIF, &member) != 0) ok = fail_errno("cannot add %s to bridge %s", name, bridge);
    }
  }
  if (ok) {
    if (ioctl(control, SIOCGIFFLAGS, &request) != 0) ok = fail_errno("cannot read flags of %s", name);
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP | IFF_PROMISC);
    if (ok && ioctl(control, SIOCSIFFLAGS, &request) != 0) ok = fail_errno("cannot bring %s up", name);
  }
  close(control);
  return ok;
}

// One queue of a tap device; the first one also sets the interface up.
int tap_open(const char *name, const char *bridge, int mtu, bool multi_queue) {
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) { fail_errno("cannot open /dev/net/tun"); return -1; }
  struct ifreq request = {0};
  if (!name_fits(name, "a tap")) { close(fd); return -1; }
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (multi_queue ? IFF_MULTI_QUEUE : 0));
  if (ioctl(fd, TUNSETIFF, &request) != 0) {
    // Names are the host's: a guest of the same number that belongs to another gpve on this machine has it.
    if (errno == EBUSY)
      fail("cannot make the tap device %s: another process on this machine has it; if a second gpve runs here, "
           "give the guest another number", name);
    else fail_errno("cannot make the tap device %s", name);
    close(fd);
    return -1;
  }
  if (bridge != NULL && !set_interface(name, bridge, mtu)) {
    close(fd);
    return -1;
  }
  return fd;
}

bool tap_open_all(const struct spec *spec) {
  for (int i = 0; i < spec->tap_count; i++) {
    const struct tap_device *tap = &spec->taps[i];
    for (int queue = 0; queue < tap->queues; queue++) {
      int fd = tap_open(tap->name, queue == 0 ? tap->bridge : NULL, tap->mtu, tap->queues > 1);
      if (fd < 0 || !descriptor_keep(fd, tap->first_fd + queue)) return false;
    }
  }
  for (int i = 0; i < spec->vhost_count; i++) {
    int fd = open("/dev/vhost-net", O_RDWR | O_CLOEXEC);
    if (fd < 0) return fail_errno("cannot open /dev/vhost-net");
    if (!descriptor_keep(fd, spec->vhost_first_fd + i)) return false;
  }
  return true;
}

bool sockets_open_all(const struct spec *spec) {
  for (int i = 0; i < spec->socket_count; i++) {
    int fd = socket_listen(spec->sockets[i].path);
    if (fd < 0 || !descriptor_keep(fd, spec->sockets[i].fd)) return false;
  }
  return true;
}

bool files_open_all(const struct spec *spec) {
  for (int i = 0; i < spec->file_count; i++) {
    const struct opened_file *file = &spec->files[i];
    int fd = open(file->path, (strcmp(file->mode, "rw") == 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) return fail_errno("cannot open %s", file->path);
    if (!descriptor_keep(fd, file->fd)) return false;
  }
  return true;
}
