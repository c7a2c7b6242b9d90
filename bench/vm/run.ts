// `npm run bench:vm`: virtual machines beside bare QEMU in one run. Parts: boots, clones, guests.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root } from "../../test/support/gpve.ts";
import { freePorts } from "../../test/support/parts.ts";
import { NODE, runTask, startBench } from "./bench-gpve.ts";
import { measureBoots, type Boots } from "./boots.ts";
import { measureClones, type Clones } from "./clones.ts";
import { measureManyGuests, type ManyGuests } from "./many-guests.ts";
import { rounded } from "./numbers.ts";

const { values: options } = parseArgs({
  options: {
    boots: { type: "string", default: "9" },
    clones: { type: "string", default: "100" },
    guests: { type: "string", default: "500" },
    seconds: { type: "string", default: "60" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

interface Report {
  readonly boots: Boots;
  readonly clones: Clones;
  readonly many: ManyGuests;
}

const [metricsPort = 0] = await freePorts(1);
const bench = await startBench(["--metrics", `127.0.0.1:${metricsPort}`]);
/** Long work: what is measured is shown at once, so that a failure later loses nothing. */
async function part<T>(what: string, work: () => Promise<T>): Promise<T> {
  console.error(what);
  const found = await work();
  console.error(JSON.stringify(found));
  return found;
}

async function measure(): Promise<Report> {
  const boots = await part("boots, ours and bare in turn", () => measureBoots(bench, Number(options.boots)));
  const clones = await part("linked clones", () => measureClones(bench, Number(options.clones)));
  const guests = Number(options.guests);
  const url = `http://127.0.0.1:${metricsPort}/metrics`;
  const many = await part("many guests", () =>
    measureManyGuests(bench, url, guests, Number(options.seconds)),
  );
  return { boots, clones, many };
}

const { boots, clones, many } = await measure().catch(async (error: unknown) => {
  // Guests outlive whoever started them; here they must not.
  await runTask(bench, "POST", `/nodes/${NODE}/stopall`, { "force-stop": 1, timeout: 1 });
  throw error;
});
const date = new Date().toISOString().slice(0, 10);
const report = { date, cores: availableParallelism(), boots, clones, many };
const text = [
  `Virtual machines; ${date}, ${report.cores} cores, guests emulated by TCG where KVM does not work.`,
  "",
  "| what | ours | by hand | ratio |",
  "| --- | --- | --- | --- |",
  `| create + start until the guest's init speaks (median of ${boots.runs}, same command line) | ${rounded(boots.oursMs / 1000)} s | ${rounded(boots.bareMs / 1000)} s | ${rounded(boots.ratio)} |`,
  `| ${clones.clones} linked clones asked for at once, beside \`qemu-img create\` alone (median of ${clones.rounds}; the first after a start ${rounded(clones.firstMs / 1000)} s) | ${rounded(clones.oursMs / 1000)} s | ${rounded(clones.bareMs / 1000)} s | ${rounded(clones.oursMs / clones.bareMs)} |`,
  "",
  `${many.guests} running QEMUs on one agent:`,
  "",
  "| what | value |",
  "| --- | --- |",
  `| create + start, each | ${rounded(many.startMsEach, 0)} ms |`,
  `| one look at all of them (mean of ${many.passes} in ${many.seconds} s) | ${rounded(many.passMs, 0)} ms |`,
  `| list of VMs by API | ${rounded(many.listMs, 0)} ms |`,
  `| server and agent: memory | ${rounded(many.agentMiB, 0)} MiB |`,
  `| server and agent: CPU | ${rounded(many.agentCpuPercent, 1)} % of a core |`,
  `| supervisor: memory, each | ${rounded(many.supervisorMiBEach)} MiB |`,
  `| supervisors: CPU, all | ${rounded(many.supervisorsCpuPercent, 2)} % of a core |`,
  `| kill -9 of the agent until the next one answers, ${many.adopted} adopted | ${rounded(many.adoptMs / 1000, 1)} s |`,
  "",
].join("\n");
mkdirSync(options.out, { recursive: true });
writeFileSync(join(options.out, "vm.json"), `${JSON.stringify(report, undefined, 2)}\n`);
writeFileSync(join(options.out, "vm.md"), text);
console.log(text);
