// How long steps take: what to expect, and when to give up.
import type { JournalLine } from "../../folder/journal.ts";
import type { StepKind } from "../../plan/plan-steps.ts";

interface StepTime {
  readonly expectedMs: number;
  readonly timeoutMs: number;
  /** The time is a boot's or a download's, not ours. */
  readonly isWaiting: boolean;
}

const seconds = (expected: number, timeout: number, isWaiting = true): StepTime => ({
  expectedMs: expected * 1000,
  timeoutMs: timeout * 1000,
  isWaiting,
});

const times: Readonly<Record<StepKind, StepTime>> = {
  "image.ensure": seconds(60, 1800),
  "template.create": seconds(30, 1800, false),
  "template.seal": seconds(10, 900, false),
  "template.delete": seconds(5, 300, false),
  "balancer.create": seconds(15, 900, false),
  "balancer.change": seconds(2, 120, false),
  "balancer.start": seconds(5, 300, false),
  "balancer.stop": seconds(5, 300, false),
  "balancer.delete": seconds(5, 300, false),
  "guest.clone": seconds(15, 900, false),
  "guest.create": seconds(15, 900, false),
  "guest.resize": seconds(2, 120, false),
  "guest.change": seconds(2, 120, false),
  "guest.start": seconds(5, 300, false),
  "guest.stop": seconds(15, 300, false),
  "guest.delete": seconds(5, 300, false),
  "talos.reach": seconds(40, 600),
  "talos.configure": seconds(45, 600),
  "talos.reconfigure": seconds(10, 900),
  "talos.reboot": seconds(60, 900),
  "talos.reset": seconds(90, 900),
  "talos.upgrade": seconds(180, 1800),
  "etcd.bootstrap": seconds(90, 900),
  "etcd.join": seconds(60, 600),
  "etcd.snapshot": seconds(5, 600, false),
  "etcd.leave": seconds(10, 300),
  "etcd.remove": seconds(5, 120, false),
  "kubernetes.reach": seconds(90, 900),
  "kubernetes.components": seconds(60, 900),
  "kubernetes.kubelet": seconds(45, 900),
  "node.ready": seconds(60, 900),
  "node.drain": seconds(30, 3600),
  "node.uncordon": seconds(1, 60, false),
  "node.mark": seconds(1, 60, false),
  "node.delete": seconds(1, 60, false),
  "addon.apply": seconds(60, 900),
  "record.replaced": seconds(1, 10, false),
  "record.reset": seconds(1, 10, false),
  "record.rotated": seconds(2, 120, false),
};

export const timeoutOf = (kind: StepKind): number => times[kind].timeoutMs;
export const isWaiting = (kind: StepKind): boolean => times[kind].isWaiting;

/** The middle of what it took here before; else what is usual. */
export function expectedTimes(lines: readonly JournalLine[]): (kind: StepKind) => number {
  const seen = new Map<string, number[]>();
  for (const { event, step, ms } of lines) {
    const kind = step?.split(" ")[0];
    if (event !== "done" || kind === undefined || ms === undefined) continue;
    seen.set(kind, [...(seen.get(kind) ?? []), ms]);
  }
  return (kind) => {
    const known = (seen.get(kind) ?? []).toSorted((a, b) => a - b);
    return known[Math.floor(known.length / 2)] ?? times[kind].expectedMs;
  };
}
