// `npm run bench:migration`: a guest moved live between the nodes of a lab, its disks shared, beside the same move by bare
// QMP in the same run, with the same care: both are moved in turn, so that whatever else the machine does hits both.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { quantiles } from "../../test/support/counter.ts";
import { root } from "../../test/support/gpve.ts";
import { newLab } from "../../test/support/lab.ts";
import { rounded } from "../vm/numbers.ts";
import { BareGuest } from "./bare-guest.ts";
import { OurGuest, type Measured } from "./our-guest.ts";

const { values: options } = parseArgs({
  options: {
    moves: { type: "string", default: "10" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

/** Times bare QMP. */
const AIM = 1.3;

const ours: (Measured & { readonly stillMs: number; readonly handOverMs: number })[] = [];
const bare: Measured[] = [];
const lab = newLab();
try {
  await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  const our = await OurGuest.start(lab);
  const images = join(lab.data, "shared/images/100");
  const own = JSON.parse(readFileSync(join(lab.data, "instance.json"), "utf8")) as {
    readonly instanceId: string;
  };
  const other = await BareGuest.start(await our.process(), {
    image: join(lab.data, "shared/import/tiny.qcow2"),
    seed: join(images, readdirSync(images).find((name) => name.includes("cloudinit")) ?? ""),
    bridge: `g${own.instanceId}lan`,
  });
  try {
    for (let at = 0; at < Number(options.moves); at++) {
      const moved = await our.move();
      const still = Number(/stood still for (\d+) ms/.exec(moved.log)?.[1]);
      const handed = Number(/now, (\d+) ms after/.exec(moved.log)?.[1]);
      ours.push({ ...moved, stillMs: still, handOverMs: handed });
      bare.push(await other.move());
      console.error(JSON.stringify({ ours: { ...ours.at(-1), log: undefined }, bare: bare.at(-1) }));
    }
  } finally {
    our.close();
    await other.close();
  }
} finally {
  await lab.remove();
}

const row = (what: string, pick: (each: Measured) => number): string => {
  const [a, b] = [quantiles(ours.map(pick)), quantiles(bare.map(pick))];
  const all = (of: typeof a): string =>
    `${rounded(of.p50, 0)} / ${rounded(of.p99, 0)} / ${rounded(of.max, 0)} ms`;
  return `| ${what} | ${all(a)} | ${all(b)} | ${rounded(ratioOf(pick))} |`;
};
const of = <T>(all: readonly T[], pick: (each: T) => number): number[] => all.map(pick);
const date = new Date().toISOString().slice(0, 10);
const load = loadavg()[0] ?? 0;
const report = {
  date,
  cores: availableParallelism(),
  load,
  ours: ours.map(({ gapMs, totalMs, gapEndedMs, stillMs, handOverMs }) => ({
    gapMs,
    totalMs,
    gapEndedMs,
    stillMs,
    handOverMs,
  })),
  bare,
};
const ratioOf = (pick: (each: Measured) => number): number =>
  quantiles(ours.map(pick)).p50 / quantiles(bare.map(pick)).p50;
const isMet = ratioOf((each) => each.gapMs) <= AIM && ratioOf((each) => each.totalMs) <= AIM;
const text = [
  `Live moves of a guest of 128 MiB, shared disks; ${date}, ${report.cores} cores, load ${rounded(load, 0)} at the end, guests emulated by TCG where KVM does not work.`,
  "",
  `| ${ours.length} moves in turn: p50 / p99 / max | ours | bare QMP, same care | ratio of p50 |`,
  "| --- | --- | --- | --- |",
  row("gap that a client of the guest sees", (each) => each.gapMs),
  row("whole move", (each) => each.totalMs),
  "",
  `The aim is a ratio of at most ${AIM} for both: ${isMet ? "met" : "missed"}. \`npm run bench:migration\` writes this page anew.`,
  "",
  "Care: QEMU's log of the pages that an emulated guest changes is only right while the guest stands still, so that it is read when all was sent and the guest was stopped, and not before (docs/reference/migration.md). Without care a change may be lost, and the guest with it. Under KVM there is no such care. Both guests have a cgroup of the same weight: on a busy machine a process without one has a share for each of its threads.",
  "",
  `Of ours: QEMU's own downtime ${rounded(quantiles(of(ours, (each) => each.stillMs)).p50, 0)} ms, and ${rounded(quantiles(of(ours, (each) => each.handOverMs)).p50, 0)} ms from the guest's last moment here until the other node has it (p50).`,
  "",
].join("\n");
mkdirSync(options.out, { recursive: true });
writeFileSync(join(options.out, "migration.json"), `${JSON.stringify(report, undefined, 2)}\n`);
writeFileSync(join(options.out, "migration.md"), text);
console.log(text);
