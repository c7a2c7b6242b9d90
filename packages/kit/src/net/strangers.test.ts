import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { FakeClock } from "../testing/fake-clock.ts";
import { Strangers, type StrangersOptions } from "./strangers.ts";

const LIMITS = { perAddress: 4, inAll: 10, graceMs: 2_000, handshakeMs: 15_000 };

class Peer extends EventEmitter {
  readonly remoteAddress: string;
  readonly remotePort: number;
  readonly localAddress = "198.51.100.1";
  destroyed = false;

  constructor(address: string, port: number) {
    super();
    this.remoteAddress = address;
    this.remotePort = port;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

let clock: FakeClock;
let strangers: Strangers;
let ports: number;

const open = (more: Partial<StrangersOptions> = {}) => new Strangers({ limits: LIMITS, clock, ...more });
const asSocket = (peer: Peer): Socket => peer as unknown as Socket;

function dial(address = "192.0.2.1", to = strangers): Peer {
  const peer = new Peer(address, ++ports);
  to.admit(asSocket(peer));
  return peer;
}

/** The same peer, as TLS shows it. */
function secure(peer: Peer, to = strangers): Socket {
  const secured = asSocket(new Peer(peer.remoteAddress, peer.remotePort));
  to.secured(secured);
  return secured;
}

const alive = (peers: readonly Peer[]): boolean[] => peers.map(({ destroyed }) => !destroyed);

beforeEach(() => {
  clock = new FakeClock();
  strangers = open();
  ports = 1_000;
});

describe("unproven connections", () => {
  test("of one address give way to newer ones, the oldest first", async () => {
    const first = [dial(), dial(), dial(), dial()];
    await clock.advance(3_000);
    const next = [dial(), dial()];
    expect(alive(first)).toEqual([false, false, true, true]);
    expect(alive(next)).toEqual([true, true]);
    expect(strangers.count).toBe(4);
  });

  test("of one address do not touch those of others", async () => {
    const other = dial("192.0.2.2");
    await clock.advance(3_000);
    for (let count = 0; count < 9; count++) dial();
    expect(other.destroyed).toBe(false);
  });

  test("have a moment in which their proof may be under way, but not in a flood", () => {
    const peers = Array.from({ length: 8 }, () => dial());
    expect(alive(peers)).not.toContain(false);
    const more = [dial(), dial(), dial()];
    expect(alive(peers)).toEqual([false, false, false, true, true, true, true, true]);
    expect(alive(more)).toEqual([true, true, true]);
  });

  test("of one IPv6 network count as one address", async () => {
    const peers = ["::1", "::2", "::3", "::4"].map((end) => dial(`2001:db8:0:1${end}`));
    const neighbour = dial("2001:db8:0:2::1");
    await clock.advance(3_000);
    dial("2001:db8:0:1:ffff::5");
    expect(alive(peers)).toEqual([false, true, true, true]);
    expect(neighbour.destroyed).toBe(false);
  });

  test("of one IPv4 address count as one on a dual-stack socket too", async () => {
    const peers = [dial("::ffff:192.0.2.1"), dial(), dial(), dial()];
    await clock.advance(3_000);
    dial("::ffff:192.0.2.1");
    expect(alive(peers)).toEqual([false, true, true, true]);
  });

  test("of many addresses are bounded together, and whoever comes is let in", async () => {
    const peers = Array.from({ length: 10 }, (_, at) => dial(`203.0.113.${at}`));
    await clock.advance(3_000);
    const late = dial("192.0.2.9");
    expect(alive(peers)).toEqual([false, ...Array<boolean>(9).fill(true)]);
    expect(late.destroyed).toBe(false);
    const flood = Array.from({ length: 100 }, (_, at) => dial(`198.51.100.${at}`));
    expect(strangers.count).toBe(LIMITS.inAll * 2);
    expect(flood.at(-1)?.destroyed).toBe(false);
  });

  test("of a trusted proxy are not counted by address", async () => {
    strangers = open({ isProxy: (address) => address === "192.0.2.1" });
    const peers = Array.from({ length: 9 }, () => dial("::ffff:192.0.2.1"));
    await clock.advance(3_000);
    const more = dial();
    expect(alive([...peers, more])).not.toContain(false);
  });

  test("that prove themselves are none any more", async () => {
    const known = new Set<object>();
    strangers = open({ isKnown: (secured) => known.has(secured) });
    const [user, node, ...rest] = [dial(), dial(), dial(), dial()];
    known.add(secure(user));
    strangers.proven(secure(node));
    expect(strangers.count).toBe(3);
    await clock.advance(3_000);
    dial();
    dial();
    dial();
    expect(alive([user, node])).toEqual([true, true]);
    expect(alive(rest)).toEqual([false, true]);
  });

  test("are forgotten when they close, and a port is used again", () => {
    const first = dial();
    expect(strangers.connectionOf(asSocket(first))).toBe(first);
    first.destroy();
    expect(strangers.connectionOf(asSocket(first))).toBeUndefined();
    expect(strangers.count).toBe(0);
    strangers.secured(asSocket(first));
    strangers.proven(asSocket(first));
    ports = 1_000;
    const second = dial();
    first.emit("close");
    expect(strangers.connectionOf(asSocket(second))).toBe(second);
    expect(strangers.count).toBe(1);
  });

  test("cost the same to let in, however many there are", () => {
    let looked = 0;
    strangers = open({
      limits: { ...LIMITS, inAll: 2_000 },
      isKnown: () => {
        looked += 1;
        return false;
      },
    });
    for (let at = 0; at < 10_000; at++) secure(dial(`2001:db8:${(at >> 8).toString(16)}:${at & 255}::1`));
    expect(strangers.count).toBe(4_000);
    expect(looked).toBeLessThan(20_001);
  });
});

describe("handshakes", () => {
  test("end at their time, whatever came meanwhile, and only those that are not over", async () => {
    const [slow, done] = [dial(), dial()];
    secure(done);
    await clock.advance(14_000);
    const late = dial();
    expect(slow.destroyed).toBe(false);
    await clock.advance(1_000);
    expect(alive([slow, done, late])).toEqual([false, true, true]);
    await clock.advance(13_999);
    expect(late.destroyed).toBe(false);
    await clock.advance(1);
    expect(alive([done, late])).toEqual([true, false]);
    expect(strangers.count).toBe(1);
  });

  test("are not watched any more once closed", async () => {
    const peer = dial();
    strangers.close();
    await clock.advance(60_000);
    expect(peer.destroyed).toBe(false);
  });
});
