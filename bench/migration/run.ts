// `npm run bench:migration`: a guest moved live between the nodes of a lab, its disks shared, beside the same move by bare
// QMP in the same run, with the same care: both are moved in turn, so that whatever else the machine does hits both.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { quantiles } from "../../test/support/counter.ts";
import { root } from "../../test/support/gpve.ts";
import { newLab, type TestLab } from "../../test/support/lab.ts";
import { rounded } from "../vm/numbers.ts";
import { BareGuest } from "./bare-guest.ts";
import { OurGuest, type Measured, type Size } from "./our-guest.ts";

const { values: options } = parseArgs({
  options: {
    moves: { type: "string", default: "10" },
    /** Of SIZES, by their numbers. */
    guests: { type: "string", default: "100,101" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

/** Times bare QMP. */
const AIM = 1.3;

/** A tiny system alone, where what a move costs in any case is all; and one that uses its memory. */
const SIZES: readonly Size[] = [
  { vmid: 100, memoryMiB: 128, writtenMiB: 0 },
  { vmid: 101, memoryMiB: 1536, writtenMiB: 1024 },
];

type Ours = Measured & { readonly stillMs: number; readonly handOverMs: number; readonly way: string };

interface Series {
  readonly size: Size;
  readonly ours: readonly Ours[];
  readonly bare: readonly Measured[];
  readonly load: number;
}

async function series(lab: TestLab, size: Size): Promise<Series> {
  const our = await OurGuest.start(lab, size);
  const images = join(lab.data, "shared/images", String(size.vmid));
  const { instanceId } = JSON.parse(readFileSync(join(lab.data, "instance.json"), "utf8")) as {
    readonly instanceId: string;
  };
  const like = { ...(await our.process()), size };
  const other = await BareGuest.start(like, {
    image: join(lab.data, "shared/import/tiny.qcow2"),
    seed: join(images, readdirSync(images).find((name) => name.includes("cloudinit")) ?? ""),
    bridge: `g${instanceId}lan`,
  });
  const ours: Ours[] = [];
  const bare: Measured[] = [];
  try {
    for (let at = 0; at < Number(options.moves); at++) {
      const { log, ...moved } = await our.move();
      const stillMs = Number(/stood still for (\d+) ms/.exec(log)?.[1]);
      const handOverMs = Number(/now, (\d+) ms after/.exec(log)?.[1]);
      ours.push({ ...moved, stillMs, handOverMs, way: /^RAM goes .*$/m.exec(log)?.[0] ?? "" });
      bare.push(await other.move());
      console.error(JSON.stringify({ ours: ours.at(-1), bare: bare.at(-1) }));
      if (log.includes("sent once more")) console.error(log);
    }
  } finally {
    await our.close();
    await other.close();
  }
  return { size, ours, bare, load: loadavg()[0] ?? 0 };
}

const all: Series[] = [];
const lab = newLab();
try {
  await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  for (const size of SIZES)
    if (options.guests.split(",").includes(String(size.vmid))) all.push(await series(lab, size));
} finally {
  await lab.remove();
}

const p50 = (values: readonly number[]): number => quantiles([...values]).p50;
const ratioOf = ({ ours, bare }: Series, pick: (each: Measured) => number): number =>
  p50(ours.map(pick)) / p50(bare.map(pick));
const row = (of: Series, what: string, pick: (each: Measured) => number): string => {
  const cells = [of.ours, of.bare].map((moves: readonly Measured[]) => {
    const found = quantiles(moves.map(pick));
    return `${rounded(found.p50, 0)} / ${rounded(found.p99, 0)} / ${rounded(found.max, 0)} ms`;
  });
  const ratio = ratioOf(of, pick);
  return `| ${what} | ${cells.join(" | ")} | ${rounded(ratio)} | ${ratio <= AIM ? "met" : "missed"} |`;
};
const table = (of: Series): string[] => {
  const { memoryMiB, writtenMiB } = of.size;
  const what =
    writtenMiB === 0
      ? `A guest of ${memoryMiB} MiB`
      : `A guest of ${memoryMiB} MiB that has written to ${writtenMiB} MiB of them`;
  const ways = [...new Set(of.ours.map(({ way }) => way))].join("; ");
  const [still, handed] = [
    p50(of.ours.map(({ stillMs }) => stillMs)),
    p50(of.ours.map(({ handOverMs }) => handOverMs)),
  ];
  return [
    `| ${of.ours.length} moves in turn: p50 / p99 / max | ours | bare QMP, same care | ratio of p50 | aim of ${AIM} |`,
    "| --- | --- | --- | --- | --- |",
    row(of, "gap that a client of the guest sees", (each) => each.gapMs),
    row(of, "whole move", (each) => each.totalMs),
    "",
    `${what}; load ${rounded(of.load, 0)} at the end. ${ways}. Of ours, QEMU's own downtime ${rounded(still, 0)} ms, and ${rounded(handed, 0)} ms from the guest's last moment here until the other node has it (p50).`,
    "",
  ];
};

const date = new Date().toISOString().slice(0, 10);
const text = [
  `Live moves, disks shared; ${date}, ${availableParallelism()} cores, guests emulated by TCG where KVM does not work. \`npm run bench:migration\` writes this page anew.`,
  "",
  ...all.flatMap((each) => table(each)),
  "Both encrypt what goes over in QEMU (TLS 1.3, AES-128-GCM). Bare QEMUs speak to each other by a unix socket, ours from node to node.",
  "",
  "Care: QEMU's log of the pages that an emulated guest changes is only right while the guest stands still, so that it is read when all was sent and the guest was stopped, and not before (docs/reference/migration.md). Without care a change may be lost, and the guest with it. Under KVM there is no such care. Both guests have a cgroup of the same weight: on a busy machine a process without one has a share for each of its threads.",
  "",
].join("\n");
mkdirSync(options.out, { recursive: true });
const report = { date, cores: availableParallelism(), series: all };
writeFileSync(join(options.out, "migration.json"), `${JSON.stringify(report, undefined, 2)}\n`);
writeFileSync(join(options.out, "migration.md"), text);
console.log(text);
