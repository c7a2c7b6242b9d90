// What a guest sends goes to another node, and what comes from there to the guest, as it is: both ends encrypt it themselves.
// Little of it is under way at any moment, since the guest stands still for that in the end. Standard input is how the agent
// holds the line: with its end the line is cut, whatever became of the agent. `allow BYTES` there says how much the guest may
// still send; for more nothing is carried any more and `exceeded` is said. `hurry` says that the guest stands still.
#include "supervisor.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 256 * 1024, HEARD_MS = 10000 };

struct flow {
  int from, to;
  unsigned char *bytes;
  size_t at, held;
  bool over, told; // nothing more comes; and the other side knows
};

static long long left_to_send = INT64_MAX;
static char words[64];
static size_t word_bytes;

// Woken by each piece of 16 KiB, it would take turns with the QEMU that sends, and both would take twice the time. So it interrupts
// nobody who runs, until somebody waits for what little is left.
void carry_unhurried(bool unhurried) {
  struct sched_param none = {0};
  if (sched_setscheduler(0, unhurried ? SCHED_BATCH : SCHED_OTHER, &none) != 0) failure_clear();
}

static bool understood(const char *word) {
  if (strncmp(word, "allow ", 6) == 0) return number_in(word + 6, 0, INT64_MAX, "what may be sent", &left_to_send);
  if (strcmp(word, "hurry") != 0) return false;
  carry_unhurried(false);
  return true;
}

// False when nobody holds the line any more, or says what nobody understands.
static bool hear(void) {
  ssize_t got = read(0, words + word_bytes, sizeof words - 1 - word_bytes);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  word_bytes += (size_t)got;
  words[word_bytes] = '\0';
  char *end;
  while ((end = strchr(words, '\n')) != NULL) {
    *end = '\0';
    if (!understood(words)) return false;
    word_bytes -= (size_t)(end + 1 - words);
    memmove(words, end + 1, word_bytes + 1);
  }
  return word_bytes < sizeof words - 1;
}

// False when one side is broken.
static bool pass(struct flow *flow, bool readable, bool counted) {
  if (readable && flow->held == 0 && !flow->over) {
    ssize_t got = read(flow->from, flow->bytes, PIECE);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return false;
    flow->at = 0;
    flow->held = got > 0 ? (size_t)got : 0;
    flow->over = got == 0;
    if (counted) left_to_send -= (long long)flow->held;
    if (counted && left_to_send < 0) return true;
  }
  if (flow->held > 0) {
    ssize_t given = send(flow->to, flow->bytes + flow->at, flow->held, MSG_NOSIGNAL);
    if (given < 0 && errno != EAGAIN && errno != EINTR) return false;
    flow->at += given > 0 ? (size_t)given : 0;
    flow->held -= given > 0 ? (size_t)given : 0;
  }
  if (flow->over && flow->held == 0 && !flow->told) {
    shutdown(flow->to, SHUT_WR);
    flow->told = true;
  }
  return true;
}

static short wanted(const struct flow *in, const struct flow *out) {
  return (short)((in->held == 0 && !in->over ? POLLIN : 0) | (out->held > 0 ? POLLOUT : 0));
}

// The agent must know before the guest does, who is told nothing but that the line has ended.
static int exceeded(void) {
  printf("exceeded\n");
  fflush(stdout);
  int64_t deadline = now_ms() + HEARD_MS;
  while (readable_until(0, deadline) && hear()) continue;
  return 0;
}

int carry_on(int guest, int line) {
  struct flow out = {.from = guest, .to = line, .bytes = malloc(PIECE)}, in = {.from = line, .to = guest, .bytes = malloc(PIECE)};
  if (out.bytes == NULL || in.bytes == NULL) return 1;
  int descriptors[] = {0, guest, line};
  for (int i = 0; i < 3; i++) fcntl(descriptors[i], F_SETFL, fcntl(descriptors[i], F_GETFL) | O_NONBLOCK);
  while (!out.told || !in.told) {
    struct pollfd watched[] = {{.fd = 0, .events = POLLIN}, {.fd = guest, .events = wanted(&out, &in)}, {.fd = line, .events = wanted(&in, &out)}};
    // One that has hung up says so for ever, also when it is not asked.
    for (int i = 1; i < 3; i++)
      if (watched[i].events == 0) watched[i].fd = -1;
    if (poll(watched, 3, -1) < 0) {
      if (errno == EINTR) continue;
      return 1;
    }
    if (watched[0].revents != 0 && !hear()) return 0;
    if (!pass(&out, watched[1].revents != 0, true) || !pass(&in, watched[2].revents != 0, false)) return 0;
    if (left_to_send < 0) return exceeded();
  }
  return 0;
}
